"""What every command does with its results: nothing that was computed is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from slalom_xai.errors import SlalomError

Write = tuple[str, Path, Callable[[Path], Path]]  # option, path, and what writes it


def echo_json(data: Any) -> None:
    """Prints JSON that every encoding of standard output can hold: other characters are escaped."""
    typer.echo(json.dumps(data, ensure_ascii=True))


def echo_list(known: dict[str, str], as_json: bool) -> None:
    """Prints names and what they stand for."""
    if as_json:
        echo_json(known)
        return
    width = max(map(len, known))
    for name, summary in known.items():
        typer.echo(f"{name:{width}}  {summary}")


def write_all(writes: Sequence[Write]) -> tuple[list[Path], list[str]]:
    """Writes files, each whether or not another fails; gives those written and what went wrong.

    Args:
        writes: option, path and how to write it.
    """
    written, problems = [], []
    for option, path, write in writes:
        try:
            written.append(write(path))
        except SlalomError as error:
            problems.append(f"{option}: {error}")
        except OSError as error:
            problems.append(f"{option}: cannot write {path}: {error.strerror or error}")
    return written, problems


# Errors of the package in the words of the command line: options, not Python's arguments.


# Quoted parts come first and stay as they are: they hold what the user gave.
_QUOTED = r"""(?<![=\w])'(?:[^'\\]|\\.)*'|(?<![=\w])"(?:[^"\\]|\\.)*\""""
_OPTIONS = (
    "method|budget|granularity|target|labels|removal|device|dtype|tokenizer|revision|score|size|"
    "family"
)
_RULES: tuple[tuple[str, str], ...] = (
    (r"pass truncation=True \(--truncation\)", "pass --truncation"),
    (r"\btruncation=True\b", "--truncation"),
    (r"\btrust_remote_code=True\b", "--trust-remote-code"),
    (r"\brandom_state\b", "--seed"),
    (r"\bmax_(calls|cost)=(?=\d)", r"--max-\1 "),
    (r"\bmax_(calls|cost) is\b", r"--max-\1 is"),
    (r"\bsamples=(\d+)", r"--samples \1"),
    (r"\b(price|samples|seed) is\b", r"--\1 is"),
    (r"\btext_pair\b", "--pair"),
    (rf"\b({_OPTIONS})=['\"](\w+)['\"]", r"--\1 \2"),
    (rf"\b({_OPTIONS})=(?!\w)", r"--\1"),
    (r"\b(budget|at_least) is (?=[-\d])", r"--\1 is "),
    (rf"\bunknown ({_OPTIONS})(?= )", r"unknown --\1"),
    (r"\bwritten by Explanation\.save\b", "that --out wrote"),
    (r"\bthat Explanation\.save or --out wrote\b", "that --out wrote"),
)
_RULE = re.compile("|".join([_QUOTED, *(pattern for pattern, _ in _RULES)]))


def for_command_line(message: str) -> str:
    """A message of the package as somebody at the command line should read it."""
    return _RULE.sub(_changed, message)


def _changed(part: re.Match[str]) -> str:
    """One part of a message in the words of the first rule that fits all of it."""
    text = part.group(0)
    if text[0] in "'\"":
        return text
    for pattern, words in _RULES:
        # The rest of the message is seen too, because some rules look ahead.
        match = re.compile(pattern).match(part.string, part.start())
        if match is not None and match.end() == part.end():
            return match.expand(words).replace("at_least", "at-least")
    return text
