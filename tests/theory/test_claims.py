"""Every claim that ``slalom reproduce`` knows, run as such; ``make theory`` runs them in full."""

import pytest
from marks import long_if

from slalom_xai.theory import Settings, reproductions

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
@pytest.mark.parametrize("name", long_if(LONG, reproductions()))
def test_every_claim_holds_at_its_smallest(name):
    outcome = reproductions()[name].run(Settings(small=True))
    assert [check for check in outcome.checks if not check.holds] == []
