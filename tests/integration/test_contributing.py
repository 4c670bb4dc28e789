"""The examples of CONTRIBUTING.md: a method and a metric in one file and one registration each."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"

USE = """
from slalom_xai import Explainer, methods
from slalom_xai.metrics import Case, asker, measure, metrics

assert "alone" in methods() and "sparsity" in metrics()
explainer = Explainer(method="alone", budget=120)
explanation = explainer("A slow start, but a wonderful film.")
scores = dict(explanation.as_list("value"))
assert scores["wonderful"] > 0 > scores["slow"], scores
found = measure(Case(explanation, asker(explainer, explanation)), ["sparsity", "fidelity-wide"])
assert 0 <= found["sparsity"]["share"] < 1
assert found["fidelity-wide"].values
print("both work")
"""


def test_the_examples_work_as_they_are(tmp_path):
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(examples) == 2
    script = tmp_path / "extended.py"
    script.write_text("\n".join([*examples, USE]), encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "both work"
