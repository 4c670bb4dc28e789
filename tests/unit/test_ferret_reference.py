"""Deletion and insertion against AOPC comprehensiveness and sufficiency of ferret-xai.

The fixture is made by scripts/reference_ferret.py.

Both take the probability of the model's answer on the whole text, less that on what is left when
the top units go (comprehensiveness) or when only they stay (sufficiency), and average over sizes of
the top. Special tokens stay. Ferret deletes tokens by default and can mask them, as
``removal="delete"`` and ``"mask"`` do. Its numbers at each size of the top are ours. What differs
is which are averaged:

    rounding    q n is rounded down there, and a bin of no unit is skipped; here it is rounded up,
                as in ERASER
    duplicates  bins of the same size count once there, each by itself here
    sizes       by default 10, 20, ..., 100 % there; here 1, 5, 10, 20, 50 % and the curve of 1 to
                n − 1 units, never the whole text
    signs       by default (``only_pos``) the top holds no unit that argues against the answer
                there; here it takes the next in order

With the same bins the two agree on a text of 100 units; on shorter ones the tests put ferret's
numbers per size together as we do.
"""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slalom_xai import Explainer
from slalom_xai.methods.additive import AdditiveSurrogate
from slalom_xai.metrics import Case, Deletion, Insertion, asker
from slalom_xai.metrics.perturbation import BINS, bin_sizes

FIXTURES = Path(__file__).parents[1] / "fixtures"
CASES = json.loads((FIXTURES / "ferret.json").read_text(encoding="utf-8"))["cases"]
TOLERANCE = 2e-6  # ferret ran in double precision, we in single


def named(case):
    return f"{len(case['scores'])}-{case['target']}-{case['removal']}"


@pytest.fixture(scope="module", params=CASES, ids=named)
def compared(request, explainers):
    """A case of the fixture, and pairs of names and numbers for it, ferret's and ours."""
    case = request.param
    explainer = explainers[case["removal"]]
    explanation = explainer(case["text"])
    assert sigmoid(explanation.prediction) == pytest.approx(
        case["probability"] if case["target"] else 1 - case["probability"], abs=TOLERANCE
    )
    scores = np.array(case["scores"]) * (
        1 if case["target"] else -1
    )  # ferret's argue for the answer, ours for the second label
    known = replace(
        explanation,
        function=AdditiveSurrogate(torch.tensor(scores)[:, None], torch.tensor(explanation.full)),
    )
    asked = Case(known, asker(explainer, known))
    ours = {
        "comprehensiveness": Deletion().measure(asked),
        "sufficiency": Insertion().measure(asked),
    }
    return [(name, case[name], found) for name, found in ours.items()]


@pytest.fixture(scope="module")
def explainers():
    folder = str(FIXTURES / "lrp" / "bert")
    return {
        removal: Explainer(
            folder, method="random", removal=removal, granularity="token", target=1, device="cpu"
        )
        for removal in ("delete", "mask")
    }


def sigmoid(number):
    return 1 / (1 + np.exp(-number))


def test_the_area_is_ferrets_over_all_sizes(compared):
    for _, theirs, ours in compared:
        assert ours["area"] == pytest.approx(theirs["curve"], abs=TOLERANCE)


def test_the_bins_hold_ferrets_numbers(compared):
    for name, theirs, ours in compared:
        drops = np.array(theirs["drops"])
        assert ours[name] == pytest.approx(
            drops[bin_sizes(len(drops) + 1) - 1].mean(), abs=TOLERANCE
        )


@pytest.mark.parametrize(
    "compared", [case for case in CASES if len(case["scores"]) > 7], ids=named, indirect=True
)
def test_the_bins_are_ferrets_where_they_are_whole_and_distinct(compared):
    for name, theirs, ours in compared:
        units = len(theirs["drops"]) + 1
        if units == 100:
            assert ours[name] == pytest.approx(theirs["perc"], abs=TOLERANCE)
        else:  # of 20 units, 1 % is none there and left out, and one here, as 5 % is
            assert ours[name] * len(BINS) - theirs["drops"][0] == pytest.approx(
                theirs["perc"] * (len(BINS) - 1), abs=len(BINS) * TOLERANCE
            )
