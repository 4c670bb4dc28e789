"""Every claim that ``slalom reproduce`` knows, run as such; ``make theory`` runs them in full."""

import pytest

from slalom_xai.theory import Settings, reproductions


@pytest.mark.slow
@pytest.mark.parametrize("name", list(reproductions()))
def test_every_claim_holds_at_its_smallest(name):
    outcome = reproductions()[name].run(Settings(small=True))
    assert [check for check in outcome.checks if not check.holds] == []
