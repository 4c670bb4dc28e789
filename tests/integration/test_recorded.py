"""Explanations stay what they were.

The fixture is a part of what ``scripts/record_explanations.py`` writes. A change that is meant to
change numbers replaces it, and says so.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recording import SMALL, SMALL_CASES, differences, recorded

RECORD = Path(__file__).parent.parent / "fixtures" / "recorded.json"
TOLERANCE = 1e-5  # other processors round otherwise, and a fit makes that larger


@pytest.mark.parametrize("job", SMALL, ids=":".join)
def test_an_explanation_is_what_it_was(job):
    before = json.loads(RECORD.read_text(encoding="utf-8"))
    now = recorded(job, SMALL_CASES, seeds=(0,))
    assert len(now) == len(SMALL_CASES)
    assert list(differences({name: before[name] for name in now}, now, TOLERANCE)) == []
