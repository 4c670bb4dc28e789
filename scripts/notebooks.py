"""Strips the notebooks in examples/ of outputs and counters: changes then show what people changed.

python scripts/notebooks.py           # in place
python scripts/notebooks.py --check   # only says which are not, and fails
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[1] / "examples"
KEPT = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def stripped(notebook: dict[str, Any]) -> str:
    cells = [cell | {"metadata": {}} for cell in notebook["cells"]]
    cells = [
        cell | {"execution_count": None, "outputs": []} if cell["cell_type"] == "code" else cell
        for cell in cells
    ]
    return (
        json.dumps(
            notebook | {"cells": cells, "metadata": KEPT},
            indent=1,
            ensure_ascii=False,
            sort_keys=True,
        )
        + "\n"
    )


def main() -> int:
    left = []
    for path in sorted(EXAMPLES.glob("*.ipynb")):
        before = path.read_text(encoding="utf-8")
        after = stripped(json.loads(before))
        if before != after:
            left.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(after, encoding="utf-8")
    if left:
        print(f"{'holding outputs' if '--check' in sys.argv else 'stripped'}: {', '.join(left)}")
    return int(bool(left) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
