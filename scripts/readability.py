"""Prints how dense the code is, as a sign and not as an aim.

    python scripts/readability.py [FOLDER ...]

Lines of code are lines that hold a token other than a comment or a docstring.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_LINE = 100
LONGEST_MODULE = 330
LONGEST_FUNCTION = 60
SHARED_LINES = 10
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@dataclass
class Density:
    """What was counted over all modules."""

    modules: int = 0
    lines: int = 0
    nodes: int = 0
    conditional_expressions: int = 0
    long_lines: list[str] = field(default_factory=list)
    long_modules: list[str] = field(default_factory=list)
    long_functions: list[str] = field(default_factory=list)


def code_lines(source: str, tree: ast.Module) -> set[int]:
    """The numbers of lines that hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return lines - docstring_lines(tree)


def docstring_lines(tree: ast.Module) -> set[int]:
    """The numbers of lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            lines.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def import_lines(tree: ast.Module) -> set[int]:
    """The numbers of lines of imports."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def add(density: Density, path: Path) -> None:
    """Counts one module."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    written = source.splitlines()
    nodes = list(ast.walk(tree))
    density.modules += 1
    density.lines += len(code_lines(source, tree))
    density.nodes += len(nodes)
    density.conditional_expressions += sum(isinstance(node, ast.IfExp) for node in nodes)
    for number, line in enumerate(written, start=1):
        if len(line) > LONGEST_LINE:
            density.long_lines.append(f"{path}:{number}")
    if len(written) > LONGEST_MODULE:
        density.long_modules.append(f"{path}: {len(written)}")
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > LONGEST_FUNCTION:
                density.long_functions.append(f"{path}:{node.lineno} {node.name}: {length}")


def shared_places(paths: list[Path]) -> list[str]:
    """Where ten lines of code or more stand twice; imports do not count."""
    seen: dict[tuple[str, ...], str] = {}
    shared = []
    for path in paths:
        source = path.read_text(encoding="utf-8")
        tree = ast.parse(source)
        numbers = sorted(code_lines(source, tree) - import_lines(tree))
        written = source.splitlines()
        lines = [(number, written[number - 1].strip()) for number in numbers]
        for start in range(len(lines) - SHARED_LINES + 1):
            block = tuple(line for _, line in lines[start : start + SHARED_LINES])
            here = f"{path}:{lines[start][0]}"
            if block in seen:
                shared.append(f"{here} and {seen[block]}")
            else:
                seen[block] = here
    return shared


def main() -> None:
    """Counts and prints."""
    folders = [Path(name) for name in sys.argv[1:]] or [Path("src/slalom_xai")]
    paths = sorted(path for folder in folders for path in folder.rglob("*.py"))
    density = Density()
    for path in paths:
        add(density, path)
    root = len(list(folders[0].glob("*.py")))
    per_thousand = 1000 * density.conditional_expressions / density.lines
    print(f"modules: {density.modules}, {root} of them at the root; lines of code: {density.lines}")
    print(f"syntax nodes per line of code: {density.nodes / density.lines:.1f}")
    print(f"conditional expressions per 1,000 lines: {per_thousand:.0f}")
    shared = shared_places(paths)
    for title, places in (
        (f"lines over {LONGEST_LINE} characters", density.long_lines),
        (f"modules over {LONGEST_MODULE} lines", density.long_modules),
        (f"functions over {LONGEST_FUNCTION} lines", density.long_functions),
        (f"blocks of {SHARED_LINES} lines that stand twice", shared),
    ):
        print(f"{title}: {len(places)}")
        for place in places[:20]:
            print(f"    {place}")
    names = Counter(path.name for path in paths if path.name not in ("__init__.py", "base.py"))
    twice = sorted(name for name, count in names.items() if count > 1)
    print(f"module names used twice: {', '.join(twice) or 'none'}")


if __name__ == "__main__":
    main()
