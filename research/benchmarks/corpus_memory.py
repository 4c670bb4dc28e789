"""Watches one run of `slalom corpus`: its memory, its speed and the size of its files."""

from __future__ import annotations

import os
import re
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from slalom_xai.data.corpus.schema import count_rows

_LINES = 10  # said of a run, one after each tenth of its texts


@dataclass(frozen=True)
class Used:
    """What a process uses.

    Attributes:
        now: megabytes.
        most: megabytes, the most since it was last asked to forget.
        busy: seconds of processor time.
    """

    now: float
    most: float
    busy: float

    @classmethod
    def by(cls, process: int) -> Used | None:
        """What a process uses; None where it has ended."""
        try:
            status = Path(f"/proc/{process}/status").read_text()
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        sizes = [re.search(rf"{name}:\s+(\d+)", status) for name in ("VmRSS", "VmHWM")]
        if None in sizes:  # it has ended, and nobody has taken note
            return None
        now, most = (int(found[1]) / 1024 for found in sizes if found)
        busy = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return cls(now, most, busy)


def watch(process: subprocess.Popen[str], out: Path, texts: int, minutes: float) -> None:
    """Says what a run uses after every tenth of its texts, and at its end.

    Args:
        process: the run.
        out: its folder.
        texts: of the table.
        minutes: after which it is stopped; 0: never.
    """
    said, started, largest = 0, time.perf_counter(), 0.0
    used = Used.by(process.pid)
    while process.poll() is None:
        used = Used.by(process.pid) or used
        done, size = _done(out, texts)
        seconds = time.perf_counter() - started
        late = bool(minutes) and seconds > 60 * minutes
        if used is not None and (late or done * _LINES // texts > said):
            said = done * _LINES // texts
            largest = max(largest, used.most)
            print(_line(done, size, used, largest, seconds), flush=True)
            _forget_most(process.pid)
        if late:
            print(f"stopped after {minutes} minutes")
            process.kill()
            process.wait()
        time.sleep(1)
    done, size = _done(out, texts)
    if used is not None and done * _LINES // texts > said:
        largest = max(largest, used.most)
        print(_line(done, size, used, largest, time.perf_counter() - started), flush=True)
    print(f"ended with exit code {process.returncode}")


def _line(done: int, size: int, used: Used, largest: float, seconds: float) -> str:
    each = max(done, 1)
    return (
        f"{done} texts: {used.now:.0f} MB, since the last line at most {used.most:.0f}, so far "
        f"{largest:.0f}; {done / seconds:.1f} texts a second, {used.busy / each:.4f} processor "
        f"seconds and {size / each:.0f} bytes a text"
    )


def _done(out: Path, texts: int) -> tuple[int, int]:
    """Texts explained so far, and the bytes of their files."""
    parts = list(out.glob("parts/*.parquet"))
    if not parts:
        return 0, 0
    each = count_rows(min(parts))
    return min(each * len(parts), texts), sum(path.stat().st_size for path in parts)


def _forget_most(process: int) -> None:
    """Lets the kernel take the memory of now for the most so far."""
    try:
        Path(f"/proc/{process}/clear_refs").write_text("5")
    except OSError:  # ended, or not ours
        return
