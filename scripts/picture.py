"""Draws the README's pictures: what ``make explain`` prints, and the scatter of its scores, as SVG.

python scripts/picture.py
"""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from slalom_xai import Explainer
from slalom_xai.reports.figures import save, scatter
from slalom_xai.reports.terminal import render

ROOT = Path(__file__).parents[1]


def main() -> None:
    explanation = Explainer()((ROOT / "examples" / "review.txt").read_text(encoding="utf-8"))
    console = Console(
        record=True,
        width=92,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
        highlight=False,
    )
    console.print(render(explanation))
    target = ROOT / "docs" / "images" / "explain.svg"
    target.parent.mkdir(exist_ok=True)
    console.save_svg(str(target), title="make explain")
    print(target)
    print(save(scatter(explanation, labels=30), target.with_name("scatter.svg")))


if __name__ == "__main__":
    main()
