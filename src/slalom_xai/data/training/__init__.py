"""Making a classifier from a table: from scratch, from a pretrained model or from a teacher."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slalom_xai.system.lazy_names import lazy_names

if TYPE_CHECKING:
    from slalom_xai.data.training.options import TrainingOptions
    from slalom_xai.data.training.run import train
    from slalom_xai.data.training.saving import Epoch, Score, TrainingReport

__all__ = ["Epoch", "Score", "TrainingOptions", "TrainingReport", "train"]

__getattr__ = lazy_names(
    __name__,
    {
        "Epoch": "saving",
        "Score": "saving",
        "TrainingOptions": "options",
        "TrainingReport": "saving",
        "train": "run",
    },
)
