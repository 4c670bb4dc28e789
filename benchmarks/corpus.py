"""How `slalom corpus` bears many texts: its speed, its memory, and kills.

    python -m benchmarks.corpus speed --data ag_news_train.jsonl.gz yelp_train.jsonl.gz
    python -m benchmarks.corpus memory --data ... --texts 100000
    python -m benchmarks.corpus kills --data ... --engine local
    python -m benchmarks.corpus kills --data ... --engine ray --victims workers
    python -m benchmarks.corpus kills --data ... --engine ray --victims driver
    python -m benchmarks.corpus workers --data ... --engine ray

Texts are sentences of 10 to 20 words of the tables in --data, column ``text``.

- ``speed``: the command in one process, and ``Explainer(...)(texts)`` on the same texts, in turns.
  Each is a process of its own, and its time counts from when the model is loaded.
- ``memory``: one run of the command, with the largest memory of its process after every tenth of
  the texts, and its speed.
- ``kills``: a run that is killed at random moments and started again, beside one that nobody
  disturbed: are all files equal?
- ``workers``: one worker and two, in turns.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

WORDS = (10, 20)  # of a sentence
_LIST = """
import json, sys, time
from slalom_xai import Explainer
texts, method, budget = json.load(sys.stdin)
explainer = Explainer(method=method, budget=budget, show_progress=False)
started, busy = time.perf_counter(), time.process_time()
for start in range(0, len(texts), 1000):
    explainer(texts[start : start + 1000])
print(time.perf_counter() - started, time.process_time() - busy)
"""
_CORPUS = """
import sys, time
from slalom_xai.corpus import ExplainOptions, explain_corpus
table, out, method, budget = sys.argv[1:]
options = ExplainOptions(method=method, budget=int(budget) or None)
options.explainer()
started, busy = time.perf_counter(), time.process_time()
explain_corpus(table, out, options, show_progress=False)
print(time.perf_counter() - started, time.process_time() - busy)
"""


def sentences(paths: Sequence[Path], count: int, seed: int = 0) -> list[str]:
    """Distinct sentences of the texts of several tables, in random order."""
    found: dict[str, None] = {}
    for path in paths:
        with gzip.open(path, "rt") as lines:
            for line in lines:
                text = json.loads(line)["text"].replace("<br />", " ")
                for sentence in re.split(r"(?<=[.!?])\s+", text):
                    words = sentence.split()
                    if WORDS[0] <= len(words) <= WORDS[1]:
                        found[" ".join(words)] = None
    chosen = list(found)
    random.Random(seed).shuffle(chosen)
    if len(chosen) < count:
        raise SystemExit(f"only {len(chosen)} sentences of {count}: give more --data")
    return chosen[:count]


def table_of(texts: Sequence[str], folder: Path) -> Path:
    path = folder / "texts.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerows([text] for text in texts)
    return path


def speed(options: argparse.Namespace) -> None:
    texts = sentences(options.data, options.texts)
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(texts, Path(folder))
        ratios = []
        for turn in range(options.repeats):
            given = json.dumps([texts, options.method, options.budget or None])
            alone = _numbers(_LIST, [], given)
            arguments = [str(table), f"{folder}/out-{turn}", options.method, str(options.budget)]
            corpus = _numbers(_CORPUS, arguments, "")
            ratios.append((alone[0] / corpus[0], alone[1] / corpus[1]))
            print(
                f"turn {turn + 1}: list call {len(texts) / alone[0]:.1f} texts a second, corpus "
                f"{len(texts) / corpus[0]:.1f}; throughput ratio {ratios[-1][0]:.2f}, in processor "
                f"time {ratios[-1][1]:.2f}",
                flush=True,
            )
    wall, busy = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"{len(texts)} texts, {options.repeats} turns: median {wall:.2f}, processor {busy:.2f}")


def _numbers(program: str, arguments: Sequence[str], given: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=given,
        text=True,
        capture_output=True,
        check=True,
    )
    return [float(number) for number in done.stdout.split()]


def memory(options: argparse.Namespace) -> None:
    texts = sentences(options.data, options.texts)
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(texts, Path(folder))
        out = Path(folder) / "out"
        process = _started(table, out, options)
        parts = -(-len(texts) // 1000)
        shown, started = 0, time.perf_counter()
        while process.poll() is None:
            time.sleep(1)
            done = len(list(out.glob("parts/*.parquet")))
            if done * 10 // parts > shown:
                shown = done * 10 // parts
                rate = 1000 * done / (time.perf_counter() - started)
                print(
                    f"{done} of {parts} parts: {_megabytes(process.pid):.0f} MB, "
                    f"{rate:.1f} texts a second",
                    flush=True,
                )
        print((out / "summary.json").read_text())


def _started(
    table: Path, out: Path, options: argparse.Namespace, *more: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "slalom_xai", "corpus", str(table), "--out", str(out)]
    command += ["--method", options.method, "--engine", options.engine]
    if options.budget:
        command += ["--budget", str(options.budget)]
    # A session of its own, so that Ray's processes can be told from others'.
    return subprocess.Popen(
        [*command, *more], stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )


def _megabytes(process: int) -> float:
    """The largest memory of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return int(found[1]) / 1024 if found else float("nan")


def kills(options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    texts = sentences(options.data, options.texts)
    more = ["--workers", str(options.workers), "--part-texts", "20"]
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(texts, Path(folder))
        whole, out = Path(folder) / "whole", Path(folder) / "out"
        assert _started(table, whole, options, *more).wait() == 0
        left, runs = options.kills, 0
        while True:
            process = _started(table, out, options, *more)
            runs += 1
            killed = 0
            while left > 0 and process.poll() is None:
                time.sleep(chance.uniform(*options.pause))
                if not list(out.glob("parts/*")) and chance.random() < 0.5:
                    continue
                if _kill(process, options.victims, chance):
                    left, killed = left - 1, killed + 1
                    print(f"kill {options.kills - left}: {_there(out)} parts", flush=True)
                if options.victims == "driver":
                    break
            code = process.wait()
            _end_session(process.pid)
            if code == 0 and left == 0:
                break
            if code == 0:
                out = out.with_name(f"{out.name}+")
        same = _files(whole) == _files(out)
        print(f"{options.kills} kills of {options.victims}, {runs} runs: equal bytes {same}")
        if not same:
            raise SystemExit(1)


def _kill(process: subprocess.Popen[str], victims: str, chance: random.Random) -> bool:
    """Kills the run, or one of its workers; False where there is none."""
    if victims == "driver":
        process.kill()
        return True
    workers = list(_workers(process.pid))
    if not workers:
        return False
    try:
        os.kill(chance.choice(workers), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _workers(session: int) -> Iterator[int]:
    """The processes of a session that explain: spawned ones, and Ray's actors."""
    for number, command in _session(session):
        if "spawn_main" in command or "MapWorker" in command or "ray::" in command:
            yield number


def _session(session: int) -> Iterator[tuple[int, str]]:
    for path in Path("/proc").glob("[0-9]*"):
        try:
            of_session = os.getsid(int(path.name)) == session
            command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if of_session and int(path.name) != session:
            yield int(path.name), command


def _end_session(session: int) -> None:
    """Ends what a killed driver left behind."""
    for number, _ in _session(session):
        try:
            os.kill(number, signal.SIGKILL)
        except ProcessLookupError:
            continue


def _there(out: Path) -> int:
    return len(list(out.glob("parts/*.parquet")))


def _files(out: Path) -> dict[str, bytes]:
    names = ("errors.jsonl", "manifest.json")
    found = [*out.glob("parts/*"), *(out / name for name in names)]
    return {str(path.relative_to(out)): path.read_bytes() for path in found}


def workers(options: argparse.Namespace) -> None:
    texts = sentences(options.data, options.texts)
    with tempfile.TemporaryDirectory() as folder:
        table = table_of(texts, Path(folder))
        ratios = []
        for turn in range(options.repeats):
            seconds = {}
            for count in (1, 2):
                out = Path(folder) / f"out-{turn}-{count}"
                more = ("--workers", str(count), "--part-texts", "100")
                assert _started(table, out, options, *more).wait() == 0
                seconds[count] = _explaining(out)
            ratios.append(seconds[1] / seconds[2])
            print(f"turn {turn + 1}: {seconds}, two workers {ratios[-1]:.2f} times one", flush=True)
    print(f"{len(texts)} texts, {options.repeats} turns: median {statistics.median(ratios):.2f}")


def _explaining(out: Path) -> float:
    """Seconds from the first part to the last, per part: models are loaded before the first."""
    ends = sorted(path.stat().st_mtime for path in out.glob("parts/*.parquet"))
    return (ends[-1] - ends[0]) / (len(ends) - 1)


def main() -> None:
    commands: dict[str, Any] = {
        "speed": speed,
        "memory": memory,
        "kills": kills,
        "workers": workers,
    }
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=commands)
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--method", default="slalom")
    parser.add_argument("--budget", type=int, default=0, help="0: chosen by each text's length")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--engine", default="local")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--victims", choices=["driver", "workers"], default="driver")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.5, 8.0))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    commands[options.part](options)


if __name__ == "__main__":
    main()
