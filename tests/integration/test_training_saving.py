"""A trained model is saved whole or not at all: full disks, kills, and what earlier kills left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import tiny

from slalom_xai.data.training.options import TrainingOptions
from slalom_xai.data.training.saving import check_folder, save
from slalom_xai.errors import InputError

PATHS = os.pathsep.join([str(Path(__file__).parents[1] / "helpers"), *sys.path])
ENVIRONMENT = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": PATHS}


def program(code, *arguments, **options):
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, **options)


def put(folder, mark):
    """Saves a model whose record and configuration carry a mark."""
    model, tokenizer = tiny("distilbert")
    model.config.mark = mark
    save(model, tokenizer, folder, {"mark": mark}, half=False)


def marks(folder):
    return [
        json.loads((folder / name).read_text())["mark"] for name in ("config.json", "training.json")
    ]


def test_a_new_model_replaces_the_files_of_the_old_one_only(tmp_path):
    folder = tmp_path / "models" / "mine"
    put(folder, "old")
    (folder / "notes.txt").write_text("mine")
    record = json.loads((folder / "training.json").read_text())
    record["files"].append("vocab.txt")
    (folder / "training.json").write_text(json.dumps(record))
    (folder / "vocab.txt").write_text("of the old model")
    put(folder, "new")
    assert marks(folder) == ["new", "new"]
    assert (folder / "notes.txt").read_text() == "mine"
    assert not (folder / "vocab.txt").exists()
    assert [path.name for path in folder.parent.iterdir()] == ["mine"]
    files = json.loads((folder / "training.json").read_text())["files"]
    assert sorted([*files, "notes.txt"]) == sorted(path.name for path in folder.iterdir())


FULL = """
import sys
from pathlib import Path
from tiny import tiny
from slalom_xai.errors import InputError
from slalom_xai.data.training.saving import save
import resource
model, tokenizer = tiny("distilbert")
model.config.mark = "new"
for limit in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    try:
        save(model, tokenizer, Path(sys.argv[1]), {"mark": "new"}, half=False)
    except InputError as error:
        print(error)
"""


def test_a_full_disk_keeps_the_old_model(tmp_path):
    """The disk is full at the first, a middle and the largest file."""
    folder = tmp_path / "model"
    put(folder, "old")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(before["model.safetensors"]) > 100_000 > len(before["tokenizer.json"]) > 3000
    full = program(FULL, folder, 100, 3000, 100_000)
    assert full.returncode == 0, full.stderr
    said = full.stdout.splitlines()
    assert len(said) == 3
    for line in said:
        assert line.startswith(f"cannot save the model in {folder} (")
        assert line.endswith("what was there is unchanged")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


KILLED = """
import json, sys
import torch
from pathlib import Path
from killed import every_step
from tiny import tiny
from slalom_xai.data.training.saving import check_folder, save
root = Path(sys.argv[1])
folder = root / "model"
model, tokenizer = tiny("distilbert")

def put(mark):
    model.config.mark = mark
    with torch.no_grad():
        model.classifier.bias.fill_(1.0 if mark == "new" else 0.0)
    save(model, tokenizer, folder, {"mark": mark}, half=False)

def check():
    check_folder(folder, overwrite=True)
    from safetensors.torch import load_file
    bias = float(load_file(folder / "model.safetensors")["classifier.bias"][0])
    files = [folder / name for name in ("config.json", "training.json")]
    found = {json.loads(file.read_text())["mark"] for file in files}
    assert found == {"new" if bias else "old"}, (found, bias)
    seen.update(found)
    left = [path.name for path in root.iterdir()]
    assert left == ["model"], left

seen = set()
steps = every_step(lambda: put("old"), lambda: put("new"), check, root)
assert seen == {"old", "new"}
print(steps)
"""


@pytest.mark.long
def test_a_kill_at_any_step_leaves_the_old_model_or_the_new_one(tmp_path):
    done = program(KILLED, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_what_a_kill_of_earlier_versions_left_is_no_obstacle(tmp_path):
    folder = tmp_path / "model"
    (folder / ".saving-abc").mkdir(parents=True)
    (folder / ".saving-abc" / "config.json").write_text("{")
    check_folder(folder, overwrite=False)  # nothing was saved yet
    (folder / "config.json").write_text("{}")
    check_folder(folder, overwrite=True)  # the old files were gone and the new ones not all there
    with pytest.raises(InputError, match="not empty"):
        check_folder(folder, overwrite=False)
    put(folder, "new")
    assert marks(folder) == ["new", "new"]
    assert not (folder / ".saving-abc").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"files": 3}',
        '{"files": "abc"}',
        "[" * 200_000,
        '{"files": ["..", "/etc/passwd", 7]}',
    ],
)
def test_an_odd_record_is_replaced(tmp_path, content):
    folder = tmp_path / "model"
    put(folder, "old")
    (folder / "training.json").write_text(content)
    check_folder(folder, overwrite=True)
    put(folder, "new")
    assert marks(folder) == ["new", "new"]


def test_places_that_cannot_be_replaced_are_said_before_training(tmp_path, monkeypatch):
    with pytest.raises(
        InputError, match="a mount point and cannot be replaced: give a folder inside it"
    ):
        check_folder(Path("/"), overwrite=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="the folder that this command runs in"):
        check_folder(Path(), overwrite=False)
    check_folder(Path("model"), overwrite=False)


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70, 10**400, True, 0.5])
def test_seeds_that_no_generator_takes_are_refused(seed):
    with pytest.raises(
        InputError, match=r"seed is .*: give a whole number from 0 to 9223372036854775807"
    ) as caught:
        TrainingOptions(seed=seed).resolve()
    assert len(str(caught.value)) < 200
