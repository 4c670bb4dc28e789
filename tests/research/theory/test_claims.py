"""Every claim that ``python -m research`` knows, run as such; ``make theory`` runs them in full."""

import pytest
from marks import long_if

from research.base import Settings
from research.registry import claims

LONG = (
    "attention-debate",
    "concatenation",
    "counterexample",
    "counterfactual-attention",
    "gam-table",
    "histogram-task",
    "repeated-token",
    "repeated-token-sink",
    "unnormalised-attention",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", long_if(LONG, claims()))
def test_every_claim_holds_at_its_smallest(name):
    outcome = claims()[name].run(Settings(small=True))
    assert [check for check in outcome.checks if not check.holds] == []
