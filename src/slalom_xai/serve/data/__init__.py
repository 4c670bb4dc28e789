"""The data set behind ``slalom serve --data``: rows of a file, and what models say about them.

The file is read once into a SQLite file beside the store, row by row. Rows can be seen, sorted and
searched while others are still read, and the next start finds them there. Predictions and
explanations come in when models have them.

    tables.streams -> source (reads) -> loading, answers (keep) -> file (SQLite)
    file -> search, paging, asking (what comes next) -> dataset (the front door)
"""

from slalom_xai.serve.data.answers import Prediction
from slalom_xai.serve.data.asking import DataRow, Page, WholeRow
from slalom_xai.serve.data.dataset import Dataset

__all__ = ["DataRow", "Dataset", "Page", "Prediction", "WholeRow"]
