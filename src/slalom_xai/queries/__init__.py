"""Asks a model many questions fast: in batches, each distinct row once, every call counted."""

from slalom_xai.queries.batches import AnswerSource, Batches, Progress, out_of_memory
from slalom_xai.queries.queries import Purpose, Queries, asked_afresh
from slalom_xai.queries.work import OneByOne, WorkPool

__all__ = [
    "AnswerSource",
    "Batches",
    "OneByOne",
    "Progress",
    "Purpose",
    "Queries",
    "WorkPool",
    "asked_afresh",
    "out_of_memory",
]
