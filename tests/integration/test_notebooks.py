"""The notebooks run from top to bottom, and are kept without outputs."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_figures(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": path.parent}}
    ).execute()
    outputs = [
        output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs
    ]
    complaints = [
        output.text
        for output in outputs
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert complaints == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2


@pytest.mark.long
def test_a_bar_in_a_notebook_needs_no_widgets_and_complains_of_nothing(tmp_path):
    source = (
        "from slalom_xai import Explainer\n"
        "found = Explainer(budget=60, show_progress=True)('A warm, funny film.')"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    NotebookClient(
        notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    (bar,) = notebook.cells[0].outputs
    assert bar.output_type == "display_data"
    assert bar.data["text/html"] == ""  # gone when done


def test_all_are_there_without_outputs():
    assert [path.stem for path in NOTEBOOKS] == [
        "answers_of_a_language_model",
        "comparing_methods",
        "model_behind_an_api",
        "quickstart",
        "your_own_model",
    ]
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "notebooks.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}run python scripts/notebooks.py"


def test_the_script_strips_what_a_run_leaves_behind(tmp_path):
    """Runs a copy of the script on a notebook with an output."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "examples").mkdir()
    script = tmp_path / "scripts" / "notebooks.py"
    script.write_text((ROOT / "scripts" / "notebooks.py").read_text())
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    notebook.cells[1].outputs = [nbformat.v4.new_output("stream", text="hello")]
    nbformat.write(notebook, tmp_path / "examples" / "run.ipynb")
    check = [sys.executable, str(script), "--check"]
    assert subprocess.run(check, check=False, capture_output=True).returncode == 1
    subprocess.run(check[:2], check=True, capture_output=True)
    assert subprocess.run(check, check=False).returncode == 0
    assert (tmp_path / "examples" / "run.ipynb").read_text() == NOTEBOOKS[0].read_text()
