"""The files of an audit's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from slalom_xai.errors import InputError
from slalom_xai.system.files import read_json

FORMAT, VERSION = "slalom-audit", 1
RECORD = "audit.json"
REPORT, PAGE = "report.md", "report.html"
CARD = "model-card.md"
VIEW = "explanations.html"  # missing where no text was explained


def read_audit(folder: Path) -> dict[str, Any]:
    """What an audit found, as ``summary.record`` gives it.

    Raises:
        InputError: the folder holds no audit, an unfinished one, or one of another version.
    """
    found = read_json(folder / RECORD, "slalom audit")
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise InputError(
            f"{folder / RECORD} is no audit: give the folder that slalom audit --out filled"
        )
    if found.get("version") != VERSION:
        raise InputError(
            f"{folder / RECORD} has version {found.get('version')!r}, and this is version "
            f"{VERSION}: make the audit again, or use the version of slalom-xai that made it"
        )
    missing = [name for name in (REPORT, PAGE, CARD) if not (folder / name).is_file()]
    if missing:
        raise InputError(
            f"{folder} lacks {', '.join(missing)}: the audit is not finished; make it again"
        )
    return found


# A document of headings, paragraphs and tables, as Markdown and as a web page.
#
# By hand: one list of blocks gives both, where templates would have to be written twice.


_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #1a1a1a; background: #fff }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .7rem; text-align: left }
th { background: #f2f2f2 }
@media (prefers-color-scheme: dark) {
  body { color: #e6e6e6; background: #161616 }
  th { background: #2a2a2a } th, td { border-color: #444 }
}
"""


@dataclass(frozen=True)
class Heading:
    """A heading of some level, from 1."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Some sentences."""

    text: str


@dataclass(frozen=True)
class Table:
    """Rows of cells below the names of their columns."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    texts: Sequence[str]


Block = Heading | Paragraph | Table | Points


def markdown(blocks: Sequence[Block]) -> str:
    """A document as Markdown; what words say is never taken for marks."""
    return "\n\n".join(map(_markdown, blocks)) + "\n"


def web_page(title: str, blocks: Sequence[Block]) -> str:
    """A document as a page that needs no network and runs no scripts."""
    body = "\n".join(map(_html, blocks))
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f"<title>{escape(title)}</title>\n"
        '<meta name="viewport" content="width=device-width">\n'
        f"<style>{_STYLE}</style>\n<main>\n{body}\n</main>\n</html>\n"
    )


def _markdown(block: Block) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_escape_markdown(block.text)}"
    if isinstance(block, Paragraph):
        return _escape_markdown(block.text)
    if isinstance(block, Points):
        return "\n".join(f"- {_escape_markdown(text)}" for text in block.texts)
    rule = "| " + " | ".join("---" for _ in block.head) + " |"
    lines = [_line(block.head), rule, *map(_line, block.rows)]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_escape_markdown(cell).replace("|", "\\|") for cell in cells) + " |"


def _escape_markdown(text: str) -> str:
    """A text in one line, with the characters escaped that Markdown would read."""
    for mark in ("\\", "`", "*", "_", "<", ">", "[", "]"):
        text = text.replace(mark, f"\\{mark}")
    return " ".join(text.split())


def _html(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Points):
        return "<ul>" + "".join(f"<li>{escape(text)}</li>" for text in block.texts) + "</ul>"
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in block.head)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in block.rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
