"""The page "Which score when" shows what its script prints, and its example runs."""

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "which-score.md").read_text(encoding="utf-8")


def test_the_table_is_what_the_script_prints():
    printed = runpy.run_path(str(ROOT / "scripts" / "which_score.py"))["table_lines"]()
    shown = [line for line in PAGE.splitlines() if line.startswith("|")]
    assert len(shown) == len(printed) == 9
    for on_page, line in zip(shown, printed, strict=True):
        words, numbers = _parts(line)
        words_on_page, numbers_on_page = _parts(on_page)
        assert words_on_page == words
        # Fits end a little differently where sums are rounded differently.
        assert numbers_on_page == pytest.approx(numbers, rel=0.05, abs=0.05)


def test_the_example_runs():
    scope = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, scope)
    explanation = scope["explanation"]
    assert (explanation.scores() == explanation.scores("shapley")).all()
    assert explanation.source("removal") == "measured"


def _parts(line):
    """The cells of a line that are words, and those that are numbers."""
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    is_number = [re.fullmatch(r"[+−][\d.]+", cell) is not None for cell in cells]
    words = [cell for cell, number in zip(cells, is_number, strict=True) if not number]
    numbers = [
        float(cell.replace("−", "-"))
        for cell, number in zip(cells, is_number, strict=True)
        if number
    ]
    return words, numbers
