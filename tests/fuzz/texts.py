"""Texts that break things: odd characters and lengths, and tokens that models know."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

_PLAIN = (
    "a slow start but one wonderful warm film with the worst end i ever saw and it is not bad "
    "at all though long dull loud funny good great awful boring brilliant never actors story"
)
WORDS = _PLAIN.split()
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇩🇪", "❤️", "☠", "👨🏿‍🚀", "1️⃣"]
JOINERS = ["\u200d", "\u200c", "\u200b", "\ufeff", "\u2060", "\u00ad", "\u180e", "\ufe0f"]
RIGHT_TO_LEFT = ["שלום", "עולם", "مرحبا", "بالعالم", "\u202eabc\u202c", "\u2067x\u2069", "ﷺ", "ﷻ"]
COMBINING = [
    "e\u0301",
    "a\u0308\u0323",
    "Z\u0351\u036b\u0343\u0363",
    "\u0301",
    "क्षि",
    "ก็",
    "n\u0303o",
]
GROWING = ["ﷺ", "ﷺﷺ", "㎏", "ﬃ", "½", "Ⅷ", "ｱ", "ｶﾞ", "㍿", "①", "ŉ", "ẞ", "ǰ", "İ", "ΐ", "ｱﷺ"]
UNSPACED = [
    "你好世界",
    "这部电影很好",
    "日本語の映画",
    "カタカナ",
    "ภาษาไทย",
    "မြန်မာ",
    "한국어",
    "。",
    "\uff01",
]
CONTROLS = [
    "\x00",
    "\x01",
    "\x07",
    "\x08",
    "\x1b[31m",
    "\x7f",
    "\x85",
    "\u2028",
    "\u2029",
    "\r",
    "\x0b",
    "\t",
]
ODD = [
    "\ufffd",
    "\uffff",
    "\ufdd0",
    "\U0010ffff",
    "\ue000",
    "\U0001d518\U0001d52b\U0001d526",
    "𐍈",
    "\U000e0041",
    "\u017f",
    "µ",
]
NUMBERS = ["0", "-1", "3.14159", "1e999", "1,000,000", "٣", "²", "0x1F", "NaN", "inf", "-0", "007"]
MARKS = [
    ".",
    ",",
    "!",
    "?",
    "...",
    "—",
    "-",
    "'",
    '"',
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "\\",
    "/",
    "@",
    "#",
    "%",
    "&",
    "*",
    "_",
    "|",
]
MARKUP = [
    "<b>",
    "</script>",
    "<img src=x onerror=alert(1)>",
    "&amp;",
    "&lt;",
    "{{x}}",
    "${x}",
    "[bold]",
    "[/]",
    "%s",
    "\\n",
]
SPECIAL = [
    "[MASK]", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "<mask>", "<unk>",
    "<s>", "</s>", "<pad>", "<|endoftext|>", "##ing", "Ġthe",
]  # fmt: skip
CLASSES: tuple[Sequence[str], ...] = (
    EMOJI, JOINERS, RIGHT_TO_LEFT, COMBINING, GROWING, UNSPACED,
    CONTROLS, ODD, NUMBERS, MARKS, MARKUP, SPECIAL,
)  # fmt: skip
Maker = Callable[[np.random.Generator], str]


def hostile(rng: np.random.Generator) -> str:
    """A text; most are short, since each is explained."""
    maker = MAKERS[int(rng.choice(len(MAKERS), p=SHARES))]
    return maker(rng)


def pick(rng: np.random.Generator, choices: Sequence[str], count: int) -> list[str]:
    """Some of the choices, with repeats."""
    return [choices[place] for place in rng.integers(len(choices), size=count)]


def _nothing(rng: np.random.Generator) -> str:
    blank = ["", " ", "\n\t ", "\u00a0", "\u3000", "\u200b", "\ufeff", "\x00", "\ud800", "."]
    return pick(rng, blank, 1)[0]


def _one(rng: np.random.Generator) -> str:
    odd = CLASSES[rng.integers(len(CLASSES))]
    return pick(rng, [*odd, *WORDS[:4]], 1)[0]


def _plain(rng: np.random.Generator) -> str:
    return " ".join(pick(rng, WORDS, int(rng.integers(2, 25))))


def _mixed(rng: np.random.Generator) -> str:
    """Words, and odd pieces of a few classes, with and without spaces between."""
    odd = [CLASSES[place] for place in rng.integers(len(CLASSES), size=2)]
    pieces = pick(rng, WORDS, int(rng.integers(1, 10)))
    pieces += [piece for kind in odd for piece in pick(rng, kind, int(rng.integers(1, 6)))]
    return _put_together(rng, pieces)


def _odd(rng: np.random.Generator) -> str:
    """Pieces of one class alone."""
    kind = CLASSES[rng.integers(len(CLASSES))]
    return _put_together(rng, pick(rng, kind, int(rng.integers(2, 16))))


def _with_special(rng: np.random.Generator) -> str:
    """Tokens that mean something to a model, as text."""
    pieces = pick(rng, WORDS, int(rng.integers(1, 9))) + pick(rng, SPECIAL, int(rng.integers(1, 5)))
    return " ".join(rng.permutation(np.array(pieces, dtype=object)))


def _repeated(rng: np.random.Generator) -> str:
    few = pick(rng, [*WORDS, "😀", "ha", "no", "[MASK]"], int(rng.integers(1, 4)))
    return " ".join(pick(rng, few, int(rng.integers(2, 40))))


def _sentences(rng: np.random.Generator) -> str:
    ends = [". ", "! ", "? ", "... ", ", ", "; ", " — ", "\n\n", "\n", "。", ".) ", '." ']
    made = ""
    for _ in range(int(rng.integers(2, 8))):
        made += " ".join(pick(rng, WORDS, int(rng.integers(1, 6)))) + pick(rng, ends, 1)[0]
    return made


def _random_characters(rng: np.random.Generator) -> str:
    """Any characters at all; lone surrogates are refused and so are rare."""
    high = int(rng.choice([0x80, 0x250, 0x3000, 0xD7FF, 0x10FFFF]))
    codes = rng.integers(1, high, size=int(rng.integers(1, 30)))
    halves = rng.random() < 0.1
    return "".join(chr(code) for code in codes.tolist() if halves or not 0xD800 <= code <= 0xDFFF)


def _long(rng: np.random.Generator) -> str:
    """More than ten thousand characters: many words, or one."""
    way = int(rng.integers(4))
    if way == 0:
        return "x" * int(rng.integers(10_000, 30_000))
    if way == 1:
        piece = pick(rng, ["😀", "你", ".", "e\u0301", "\u200d", "ab "], 1)[0]
        return piece * int(rng.integers(5_000, 12_000))
    kind = WORDS if way == 2 else CLASSES[rng.integers(len(CLASSES))]
    return " ".join(pick(rng, [*WORDS, *kind], int(rng.integers(2_500, 5_000))))


def _put_together(rng: np.random.Generator, pieces: list[str]) -> str:
    mixed = rng.permutation(np.array(pieces, dtype=object)).tolist()
    gaps = pick(rng, [" ", " ", " ", "", "  ", "\n"], len(mixed))
    return "".join(piece + gap for piece, gap in zip(mixed, gaps, strict=True))


MAKERS: tuple[Maker, ...] = (
    _plain, _mixed, _odd, _with_special, _repeated,
    _sentences, _random_characters, _one, _nothing, _long,
)  # fmt: skip
SHARES = (0.22, 0.24, 0.14, 0.12, 0.08, 0.08, 0.06, 0.03, 0.02, 0.01)
