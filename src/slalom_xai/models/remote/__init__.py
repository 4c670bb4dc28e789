"""Models behind an API: asked over the network, a few at a time, with an eye on what they cost."""

from slalom_xai.models.remote.answering import RemoteAnswerModel
from slalom_xai.models.remote.classifier import RemoteClassifier
from slalom_xai.models.remote.json_endpoint import JsonClassifier
from slalom_xai.models.remote.settings import Connection, Waiting
from slalom_xai.models.remote.spending import Price, Spending

__all__ = [
    "Connection",
    "JsonClassifier",
    "Price",
    "RemoteAnswerModel",
    "RemoteClassifier",
    "Spending",
    "Waiting",
]
