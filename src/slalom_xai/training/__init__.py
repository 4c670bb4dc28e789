"""Making a classifier from a table: from scratch, from a pretrained model or from a teacher."""

from slalom_xai.training.options import TrainingOptions
from slalom_xai.training.report import Epoch, Score, TrainingReport
from slalom_xai.training.run import train

__all__ = ["Epoch", "Score", "TrainingOptions", "TrainingReport", "train"]
