import itertools

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from slalom_xai.models import prompt
from slalom_xai.models.text import GRANULARITIES, Unit, disjoint, join_pieces, owners, words
from slalom_xai.models.tokens import Tokens


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
    assert [
        join_pieces([text], [pieces[i] for i in np.flatnonzero(owner == unit)]).text
        for unit in range(owner.max() + 1)
    ] == expected


def test_wide_punctuation_ends_sentences_without_spaces():
    text = "\u597d\u3002\u5f88\u597d\u3002"
    pieces = [Unit(character, place, place + 1) for place, character in enumerate(text)]
    assert owners([text], pieces, np.arange(5), "sentence").tolist() == [0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Apple Inc. announced a phone. It sold well.",
            ["Apple Inc. announced a phone.", "It sold well."],
        ),
        ("Mr. Smith met Dr. Jones. They left.", ["Mr. Smith met Dr. Jones.", "They left."]),
        ("Some films, e.g. this one, work. Yes.", ["Some films, e.g. this one, work.", "Yes."]),
        ("The U.S. army left. It rained.", ["The U.S. army left.", "It rained."]),
        ("He lives in the U.S. She does not.", ["He lives in the U.S.", "She does not."]),
        ("J. R. R. Tolkien wrote it. Good.", ["J. R. R. Tolkien wrote it.", "Good."]),
        ("It cost 3.5 dollars. Cheap.", ["It cost 3.5 dollars.", "Cheap."]),
        ("See No. 5 for more. Oh no. It is bad.", ["See No. 5 for more.", "Oh no.", "It is bad."]),
        ("So did I. He left Acme Inc. The end.", ["So did I.", "He left Acme Inc.", "The end."]),
        ("great film . loved it .", ["great film .", "loved it ."]),
        ("At 5 p.m. on Monday. Next.", ["At 5 p.m. on Monday.", "Next."]),
        ("He works at Acme Inc.", ["He works at Acme Inc."]),
    ],
)
def test_sentences_do_not_end_at_abbreviations(text, expected):
    pieces = words(text)
    owner = owners([text], pieces, np.arange(len(pieces)), "sentence")
    assert [
        join_pieces([text], [pieces[i] for i in np.flatnonzero(owner == unit)]).text
        for unit in range(owner.max() + 1)
    ] == expected


LATIN = [chr(code) for code in range(33, 127)]


def rewriting(normalizer, kind):
    """A tokenizer that rewrites a text before it splits it."""
    if kind == "word pieces":
        tokens = ["[UNK]", *LATIN, *(f"##{letter}" for letter in LATIN), "of", "##fi", "ffi"]
        backend = Tokenizer(
            models.WordPiece(
                {token: place for place, token in enumerate(tokens)}, unk_token="[UNK]"
            )
        )
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        tokens = [
            ("[UNK]", -10.0),
            ("▁", -2.0),
            *((letter, -3.0) for letter in LATIN),
            ("of", -1.0),
            ("fi", -1.0),
            ("ア", -2.0),
        ]
        backend = Tokenizer(models.Unigram(tokens, 0))
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
    backend.normalizer = normalizer
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")


@pytest.mark.parametrize("kind", ["word pieces", "sentence pieces"])
@pytest.mark.parametrize(
    "normalizer",
    [
        normalizers.NFKC(),
        normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()]),
        normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents()]),
    ],
    ids=["nfkc", "lower case", "no accents"],
)
@pytest.mark.parametrize(
    "text",
    [
        "ｱﷺ",
        "ｱﷺｲ",
        "アﷺ",
        "ﷺア",
        "ﷺﷺ",
        "oﬃce ﬁne",
        "İİ x İ",
        "e\u0301a\u0301 b",
        "👨‍👩‍👧 family",
        "㈱ ﷺ ﷽ abc",
        "가각",
        "½ cup ㌖",
        "ǅ ŉa",
    ],
)
def test_units_never_overlap(text, normalizer, kind):
    reading = Tokens(rewriting(normalizer, kind), limit=None, segments=0).read(text)
    for granularity in GRANULARITIES:
        units = prompt(reading, granularity).units
        spans = [(unit.start, unit.end) for unit in units]
        for one, other in itertools.combinations(spans, 2):
            shared = granularity in ("token", "type") and one == other
            assert shared or one[1] <= other[0] or other[1] <= one[0], (granularity, spans)
        assert all(text[unit.start : unit.end] in (unit.text, "") for unit in units)


@pytest.mark.parametrize(
    ("spans", "bare", "expected"),
    [
        ([(0, 2), (1, 2), (1, 3)], [], [(0, 1), (1, 2), (2, 3)]),
        ([(0, 1), (0, 1), (0, 2)], [], [(0, 1), (0, 1), (1, 2)]),
        ([(0, 2), (0, 2), (1, 3)], [], [(0, 1), (0, 1), (1, 3)]),
        ([(0, 1), (0, 4)], [0], [(0, 0), (0, 4)]),
        ([(0, 1), (0, 1)], [0], [(0, 1), (0, 1)]),
        ([(0, 3), (4, 6)], [], [(0, 3), (4, 6)]),
    ],
)
def test_spans_are_cut_until_they_are_apart_or_the_same(spans, bare, expected):
    assert disjoint(spans, [place in bare for place in range(len(spans))]) == expected
