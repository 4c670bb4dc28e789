"""Where the phrases, sentences and passages of a text begin.

Passages end at empty lines. Phrases end at punctuation and line breaks. Sentences end at a full
stop, question or exclamation mark before white space, and at empty lines. A full stop that belongs
to an abbreviation ends neither.
"""

from __future__ import annotations

import re

# The full stop, exclamation and question mark of Chinese and Japanese, and their commas.
_WIDE_STOPS = "\u3002\uff01\uff1f"
_WIDE_PAUSES = _WIDE_STOPS + "\u3001\uff0c\uff1b\uff1a"
_CLOSING = "[\"')\\]\u00bb\u201d\u2019]*"
_SENTENCE_END = re.compile(rf"[.!?…]+{_CLOSING}\s+|[{_WIDE_STOPS}]+\s*|\n\s*\n")
_PHRASE_END = re.compile(rf"[,;:.!?…\u2013\u2014]+{_CLOSING}\s+|[{_WIDE_PAUSES}]+\s*|\n+")
_PASSAGE_END = re.compile(r"\n\s*\n")
_NEARBY = 20  # characters before and behind a full stop that tell what it is

# Words whose full stop is part of them. The first kind always goes on. The second goes on before a
# number. The third may also end a sentence, which is told by what follows.
_GOES_ON = re.compile(
    r"mr|mrs|ms|mx|dr|prof|rev|hon|st|mt|ft|gen|col|maj|capt|lt|sgt|cmdr|adm|gov|sen|rep|pres"
    r"|vs|cf|e\.?g|i\.?e|viz|approx|ca|dept|est|al"
)
_BEFORE_NUMBER = re.compile(r"no|nos|vol|fig|figs|pp|eq|sec|ch|ed|eds")
_MAY_END = re.compile(r"inc|ltd|corp|co|llc|plc|bros|jr|sr|etc|a\.?m|p\.?m|ph\.d|ave|blvd|rd")
_LAST_WORD = re.compile(r"[^\W_](?:[^\W_]|[.&'’-](?=[^\W_]))*$")
# An initial, or letters with stops between them: "J", "U.S".
_LETTERS = re.compile(r"(?:[^\W\d_]\.)*[^\W\d_]")
# Words that begin a sentence behind such a stop.
_OPENS = re.compile(
    r"(?:A|An|The|This|That|These|Those|It|Its|He|His|She|Her|We|Our|They|Their|I|My|You|Your"
    r"|There|Here|But|And|Or|So|Yet|Then|If|When|While|As|At|By|For|From|In|On|To|With|After"
    r"|Before|However|Although|Because|Since|Still|What|Who|Why|How|Not|No)\b"
)


def phrase_starts(text: str) -> list[int]:
    """Offsets at which phrases begin."""
    return _starts_behind(_PHRASE_END, text)


def sentence_starts(text: str) -> list[int]:
    """Offsets at which sentences begin."""
    return _starts_behind(_SENTENCE_END, text)


def passage_starts(text: str) -> list[int]:
    """Offsets at which passages begin."""
    return _starts_behind(_PASSAGE_END, text)


def _starts_behind(ends: re.Pattern[str], text: str) -> list[int]:
    starts = [0]
    for match in ends.finditer(text):
        if not _is_abbreviation(text, match):
            starts.append(match.end())
    return starts


def _is_abbreviation(text: str, end: re.Match[str]) -> bool:
    """Whether a single full stop belongs to the word before it, as in "Mr." or "U.S."."""
    if end.group().rstrip() != ".":
        return False
    before = _LAST_WORD.search(text, max(0, end.start() - _NEARBY), end.start())
    if before is None:
        return False
    word = before.group().lower()
    after = text[end.end() : end.end() + _NEARBY]
    if _BEFORE_NUMBER.fullmatch(word):
        return after[:1].isdigit()
    if _GOES_ON.fullmatch(word):
        return True
    may_end = _MAY_END.fullmatch(word) is not None
    if not after or not (may_end or _is_initials(before.group())):
        return False
    return not _OPENS.match(after)


def _is_initials(word: str) -> bool:
    """Whether a word is an initial or made of them; "I" alone is a word."""
    lower = word.lower()
    if _LETTERS.fullmatch(lower) is None:
        return False
    return "." in lower or (lower != "i" and word.isupper())
