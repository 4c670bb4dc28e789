"""Files and folders are whole or not there, on a full disk and after a kill."""

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from made import made

from slalom_xai.errors import InputError
from slalom_xai.explanation import Explanation
from slalom_xai.system.files import append_line, is_draft, replace_file, write_file
from slalom_xai.system.folders import recover, replace_folder

HELPERS = Path(__file__).parents[1] / "helpers"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def program(code, *arguments, **options):
    """Runs Python in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(HELPERS), *sys.path]),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env=environment,
        **options,
    )


def small_files(limit):
    """What a full disk does: no file grows beyond the limit."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def test_a_file_is_replaced_with_its_rights_and_links_are_followed(tmp_path):
    real, link = tmp_path / "real.txt", tmp_path / "link.txt"
    write_file(real, "first")
    assert stat.S_IMODE(real.stat().st_mode) == 0o666 & ~_umask()
    real.chmod(0o640)
    link.symlink_to(real)
    assert write_file(link, "second ü") == link
    assert link.is_symlink()
    assert real.read_text(encoding="utf-8") == "second ü"
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert names(tmp_path) == ["link.txt", "real.txt"]
    long = write_file(tmp_path / ("n" * 250 + ".txt"), "a name of full length")
    assert long.read_text() == "a name of full length"


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_devices_and_pipes_are_written_as_they_are(tmp_path):
    write_file("/dev/null", "gone")
    assert not Path("/dev/null").is_file()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(
        [sys.executable, "-c", f"print(open({str(pipe)!r}).read())"],
        stdout=subprocess.PIPE,
        text=True,
    )
    write_file(pipe, "through")
    assert reader.communicate(timeout=60)[0] == "through\n"


def test_an_error_leaves_what_was_there_and_nothing_beside_it(tmp_path):
    path = write_file(tmp_path / "a.txt", "before")

    def stopped(error):
        with replace_file(path) as draft:
            draft.write_text("half")
            raise error

    for error in (RuntimeError, KeyboardInterrupt):
        with pytest.raises(error):
            stopped(error)
    with pytest.raises(InputError, match="half a character"):
        write_file(path, "\ud800")
    assert path.read_text() == "before"
    assert names(tmp_path) == ["a.txt"]


def test_what_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(
        InputError,
        match=r"cannot write .*: No such file or directory; give a path in a folder that exists",
    ):
        write_file(tmp_path / "no" / "a.txt", "x")
    with pytest.raises(InputError, match=r"cannot write .*: Is a directory"):
        write_file(tmp_path, "x")
    assert names(tmp_path) == []


def test_two_writers_do_not_take_each_others_drafts(tmp_path):
    path = tmp_path / "a.txt"
    with replace_file(path) as mine:
        mine.write_text("mine")
        write_file(path, "theirs")
        assert mine.exists()
    assert path.read_text() == "mine"
    assert names(tmp_path) == ["a.txt"]


SAVE = """
import sys
from made import made
from slalom_xai.errors import InputError
{imports}
try:
    {save}
except InputError as error:
    print(error)
    sys.exit(3)
"""
RESULTS = {
    "explanation.json": ("", "made(seed=2).save(sys.argv[1])"),
    "page.html": (
        "from slalom_xai.reports.html import write_report",
        "write_report(made(seed=2), sys.argv[1])",
    ),
    "figure.svg": (
        "from slalom_xai.reports import figures",
        "figures.save(figures.scatter(made(seed=2)), sys.argv[1])",
    ),
    "figure.png": (
        "from slalom_xai.reports import figures",
        "figures.save(figures.bars(made(seed=2)), sys.argv[1])",
    ),
    "figure.pdf": (
        "from slalom_xai.reports import figures",
        "figures.save(figures.bars(made(seed=2)), sys.argv[1])",
    ),
}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_a_full_disk_leaves_the_earlier_result(tmp_path, name):
    path = tmp_path / name
    path.write_text("an earlier result")
    imports, save = RESULTS[name]
    code = SAVE.format(imports=imports, save=save)
    full = program(code, path, preexec_fn=small_files(2000))
    assert full.returncode == 3, full.stderr
    assert full.stdout.startswith(
        f"cannot write {path}: File too large; what was there is unchanged: make room"
    )
    assert path.read_text() == "an earlier result"
    assert names(tmp_path) == [name]
    done = program(code, path)
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size > 2000
    assert names(tmp_path) == [name]


KILL = """
import os, signal, sys
from made import made
from killed import every_step
from pathlib import Path
from slalom_xai.explanation import Explanation

folder = Path(sys.argv[1])
path = folder / "a.json"
before, after = made(seed=1), made(seed=2)
seen = set()

def check():
    found = Explanation.load(path)
    assert found == before or found == after
    seen.add(found == after)

steps = every_step(lambda: before.save(path), lambda: after.save(path), check, folder)
assert seen == {True, False}
left = sorted(one.name for one in folder.iterdir())
assert left == ["a.json"], left
print(steps)
"""


@pytest.mark.slow
def test_a_kill_at_any_step_leaves_one_of_two_results_and_the_next_write_cleans_up(tmp_path):
    done = program(KILL, tmp_path)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 3


def test_a_draft_that_a_kill_left_is_removed_by_the_next_write(tmp_path):
    path = write_file(tmp_path / "a.json", "whole")
    code = """
import os, signal, sys
from slalom_xai.system.files import replace_file

with replace_file(sys.argv[1]) as draft:
    draft.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert program(code, path).returncode == -signal.SIGKILL
    assert path.read_text() == "whole"
    left = [name for name in names(tmp_path) if name != "a.json"]
    assert len(left) == 1
    assert is_draft(left[0])
    write_file(path, "again")
    assert names(tmp_path) == ["a.json"]


def test_a_line_that_was_cut_short_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "log.jsonl"
    append_line(path, "one")
    with path.open("a") as file:
        file.write('{"half": "a li')
    append_line(path, "two ü")
    append_line(path, "three")
    assert path.read_text(encoding="utf-8").split("\n") == [
        "one",
        '{"half": "a li',
        "two ü",
        "three",
        "",
    ]


def folder_of(path, **files):
    path.mkdir()
    for name, content in files.items():
        (path / name).write_text(content)
    return path


def test_a_folder_is_replaced_and_the_files_of_others_stay(tmp_path):
    folder = folder_of(tmp_path / "model", weights="old", vocabulary="old", notes="mine")
    folder_of(folder / "figures", plot="mine")
    (folder / "link").symlink_to("notes")
    folder.chmod(0o750)
    link = tmp_path / "current"
    link.symlink_to(folder)
    with replace_folder(link, without=["weights", "vocabulary"]) as draft:
        (draft / "weights").write_text("new")
        assert (folder / "weights").read_text() == "old"
    assert link.is_symlink()
    assert names(folder) == ["figures", "link", "notes", "weights"]
    assert (folder / "weights").read_text() == "new"
    assert (folder / "figures" / "plot").read_text() == "mine"
    assert os.readlink(folder / "link") == "notes"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    assert names(tmp_path) == ["current", "model"]


def test_an_error_leaves_the_old_folder(tmp_path):
    folder = folder_of(tmp_path / "model", weights="old")

    def stopped():
        with replace_folder(folder) as draft:
            (draft / "weights").write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        stopped()
    assert (folder / "weights").read_text() == "old"
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("exchange", [True, False])
def test_what_a_kill_left_of_a_folder_is_put_right(tmp_path, exchange):
    """Without an exchange of names there is an instant without the folder.

    The next run finds the old one and puts it back.
    """
    code = """
import sys
from pathlib import Path
from killed import every_step
from slalom_xai.system import folders

root = Path(sys.argv[1])
folder = root / "model"
exchange = sys.argv[2] == "True"
if not exchange:
    folders._exchange = lambda one, other: False

def put(content):
    with folders.replace_folder(folder, without=["weights", "config"]) as draft:
        (draft / "weights").write_text(content)
        (draft / "config").write_text(content)

def check():
    if not exchange:
        folders.recover(folder)
    assert (folder / "weights").read_text() == (folder / "config").read_text() in ("old", "new")
    seen.add((folder / "weights").read_text())
    assert (folder / "notes").read_text() == "mine"

seen = set()
put("old")
(folder / "notes").write_text("mine")
every_step(lambda: put("old"), lambda: put("new"), check, root)
assert seen == {"old", "new"}
folders.recover(folder)
left = sorted(one.name for one in root.iterdir())
assert left == ["model"], left
"""
    done = program(code, tmp_path, exchange)
    assert done.returncode == 0, done.stderr


def test_a_folder_that_is_being_written_is_no_leftover(tmp_path):
    folder = tmp_path / "model"
    with replace_folder(folder) as draft:
        (draft / "weights").write_text("new")
        recover(folder)
        assert draft.is_dir()
    assert (folder / "weights").read_text() == "new"


def test_saving_still_gives_the_path_back(tmp_path):
    path = made().save(str(tmp_path / "a.json"))
    assert path == tmp_path / "a.json"
    assert Explanation.load(path) == made()
