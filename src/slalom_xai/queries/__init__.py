"""Asks a model many questions fast: in batches, each distinct row once, every call counted."""

from slalom_xai.queries.batches import Batches, out_of_memory
from slalom_xai.queries.cache import AnswerCache
from slalom_xai.queries.queries import AnswerSource, OneByOne, Progress, Purpose, Queries, WorkPool

__all__ = [
    "AnswerCache",
    "AnswerSource",
    "Batches",
    "OneByOne",
    "Progress",
    "Purpose",
    "Queries",
    "WorkPool",
    "out_of_memory",
]
