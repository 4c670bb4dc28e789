"""AttnLRP against the authors' own package, lxt: the fixtures and how they are made are in scripts/reference_lrp.py.

The rules are the same, and so are the relevances, up to rounding: linear layers keep the plain gradient, biases take what is theirs,
attention halves at both of its products, softmax keeps its plain gradient (lxt's efficient form, the Taylor rule), LayerNorm's
deviation is a constant, and GELU and the pooler's tanh pass relevance one to one. lxt adds 1e-10 to the input of an activation
before it divides by it, which is far below the tolerance.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

from slalom_xai import Explainer
from slalom_xai.models.inside import eager
from slalom_xai.models.relevance import relevance_rules

FIXTURES = Path(__file__).parents[1] / "fixtures" / "lrp"
CASES = [
    (name, place) for name in ("bert", "gpt2") for place in range(len(json.loads((FIXTURES / name / "reference.json").read_text())["texts"]))
]
TOLERANCE = 1e-4  # of the largest relevance


def reference(name, place):
    return json.loads((FIXTURES / name / "reference.json").read_text())["texts"][place]


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def model(request):
    return request.param, AutoModelForSequenceClassification.from_pretrained(FIXTURES / request.param).eval()
