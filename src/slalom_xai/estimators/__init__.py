"""The methods: small classes registered by name, each turning answers of a model into an explanation."""

from slalom_xai.estimators.base import Estimator, Findings, estimator, methods
from slalom_xai.estimators.linear import Linear
from slalom_xai.estimators.paper import SlalomEff, SlalomExact, SlalomFidel
from slalom_xai.estimators.slalom import Slalom

__all__ = ["Estimator", "Findings", "Linear", "Slalom", "SlalomEff", "SlalomExact", "SlalomFidel", "estimator", "methods"]
