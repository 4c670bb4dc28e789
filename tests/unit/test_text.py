import pytest

from slalom_xai.text import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A fine, odd film.", ["A", "fine", ",", "odd", "film", "."]),
        ("isn't 3.5 well-made", ["isn't", "3.5", "well-made"]),
        ('("good")', ['("', "good", '")']),
        ("wait... what?!", ["wait", "...", "what", "?!"]),
        ("👩‍👩‍👧 ok", ["👩‍👩‍👧", "ok"]),
        ("سلام دنیا", ["سلام", "دنیا"]),
        (" \n\t ", []),
    ],
)
def test_words(text, expected):
    units = words(text)
    assert [unit.text for unit in units] == expected
    assert all(text[unit.start : unit.end] == unit.text for unit in units)
