"""CONTRIBUTING.md says what is true: its examples work, and what it names is there."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

USE = """
from slalom_xai import Explainer, methods
from slalom_xai.metrics import Case, asker, measure, metrics

assert "alone" in methods() and "sparsity" in metrics()
explainer = Explainer(method="alone", budget=120, target="positive")
explanation = explainer("A slow start, but a wonderful film.")
scores = dict(explanation.as_list("value"))
assert scores["wonderful"] > 0 > scores["slow"], scores
found = measure(Case(explanation, asker(explainer, explanation)), ["sparsity", "fidelity-wide"])
assert 0 <= found["sparsity"]["share"] < 1
assert found["fidelity-wide"].values

worth = {"warm": 1.0, "dull": -2.0}
for method in ("linear", "alone", "occlusion"):
    explainer = Explainer(Lexicon(worth), method=method, budget=60, target="good")
    explanation = explainer("a warm and dull film")
    for word, score in explanation.as_list("value"):
        assert abs(score - worth.get(word, 0.0)) < 1e-4, (method, word, score)
print("all three work")
"""


def section(heading):
    """The part of the page under a heading."""
    return PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]


def test_the_examples_work_as_they_are(tmp_path):
    examples = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(examples) == 3
    script = tmp_path / "extended.py"
    script.write_text("\n".join([*examples, USE]), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all three work"


def test_the_layout_names_every_part_of_the_package_and_no_other():
    layout = section("Layout: follow the flow").split("### Words")[0]
    named = re.findall(r"^\| `(\w+)` \|", layout, flags=re.MULTILINE)
    there = {
        path.stem for path in (ROOT / "src" / "slalom_xai").glob("[!_]*") if path.suffix != ".typed"
    }
    assert sorted(named) == sorted(there)


def test_the_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", PAGE))
    assert {"quick", "test", "check", "coverage"} <= named <= targets


def test_the_version_is_written_in_one_place():
    """Pyproject and the documentation read it; the citation and the page do without."""
    code = (ROOT / "src" / "slalom_xai" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', code, flags=re.MULTILINE).group(1)
    for name in ("pyproject.toml", "CITATION.cff", "docs/conf.py", "README.md"):
        assert version not in (ROOT / name).read_text(encoding="utf-8"), name
