import numpy as np
import pytest

from slalom_xai.text import Unit, joined, owners, words


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


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        ("word", ["It's", "3.5", "stars", ",", "no", "more", ".", "Go", "!"]),
        ("phrase", ["It's 3.5 stars,", "no more.", "Go!"]),
        ("sentence", ["It's 3.5 stars, no more.", "Go!"]),
    ],
)
def test_pieces_are_grouped_into_units(granularity, expected):
    text = "It's 3.5 stars, no more. Go!"
    pieces = words(text)
    owner = owners([text], pieces, np.arange(len(pieces)), granularity)
    assert [joined([text], [pieces[i] for i in np.flatnonzero(owner == unit)]).text for unit in range(owner.max() + 1)] == expected


def test_wide_punctuation_ends_sentences_without_spaces():
    text = "\u597d\u3002\u5f88\u597d\u3002"
    pieces = [Unit(character, place, place + 1) for place, character in enumerate(text)]
    assert owners([text], pieces, np.arange(5), "sentence").tolist() == [0, 0, 1, 1, 1]
