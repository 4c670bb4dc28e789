"""Making a classifier from a table: from scratch, from a pretrained model or from a teacher."""

from slalom_xai.data.training.options import TrainingOptions
from slalom_xai.data.training.run import train
from slalom_xai.data.training.saving import Epoch, Score, TrainingReport

__all__ = ["Epoch", "Score", "TrainingOptions", "TrainingReport", "train"]
