"""How `slalom corpus` bears many texts: its speed, its memory, and kills.

    python -m research.benchmarks.corpus speed --data ag_news_train.jsonl.gz yelp_train.jsonl.gz
    python -m research.benchmarks.corpus memory --data ... --texts 100000
    python -m research.benchmarks.corpus kills --data ... --engine local
    python -m research.benchmarks.corpus kills --data ... --engine ray --victims both
    python -m research.benchmarks.corpus workers --data ... --engine ray

Texts are sentences of 6 to 16 words of the tables in --data, column ``text``; longer sentences are
cut. By default each is explained by ``slalom``, with 64 calls.

- ``speed``: the command in one process, and ``Explainer(...)(texts)`` on the same texts, in turns.
  Each is a process of its own, and its time counts from when the model is loaded.
- ``memory``: one run of the command. After every tenth of the texts it says the memory of its
  process, now and at most, its speed, and the size of its files; stopped after so many --minutes.
- ``kills``: a run that is killed and started again, beside one that nobody disturbed: are all files
  equal? A kill comes at a random moment of --pause after a part was done, while others are at work.
- ``workers``: one worker and two, in turns.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from research.benchmarks.corpus_memory import watch
from research.benchmarks.sessions import AS_URGENT, end_session, kill_process, workers_of

WORDS = (6, 16)  # of a text: about 15 tokens of the embedded model on average
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
from slalom_xai.data.corpus import ExplainOptions, explain_corpus
table, out, method, budget = sys.argv[1:]
options = ExplainOptions(method=method, budget=int(budget) or None)
options.load_for_table()
started, busy = time.perf_counter(), time.process_time()
explain_corpus(table, out, options, show_progress=False)
print(time.perf_counter() - started, time.process_time() - busy)
"""


def sentences(paths: Sequence[Path], count: int, seed: int = 0) -> list[str]:
    """Distinct sentences of several tables, in random order; long ones are cut."""
    found: dict[str, None] = {}
    for path in paths:
        with gzip.open(path, "rt") as lines:
            for line in lines:
                text = json.loads(line)["text"].replace("<br />", " ")
                for sentence in re.split(r"(?<=[.!?])\s+", text):
                    words = sentence.split()
                    for start in range(0, len(words), WORDS[1]):
                        piece = words[start : start + WORDS[1]]
                        if len(piece) >= WORDS[0]:
                            found[" ".join(piece)] = None
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
            each = [seconds / len(texts) for seconds in (*alone, *corpus)]
            print(
                f"turn {turn + 1}: list call {1 / each[0]:.1f} texts a second, corpus "
                f"{1 / each[2]:.1f}; processor seconds a text {each[1]:.4f} and {each[3]:.4f}; "
                f"throughput ratio {ratios[-1][0]:.2f}, in processor time {ratios[-1][1]:.2f}",
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
        watch(_started(table, out, options), out, len(texts), options.minutes)


def _started(
    table: Path, out: Path, options: argparse.Namespace, *more: str
) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "slalom_xai", "corpus", str(table), "--out", str(out)]
    command += ["--method", options.method, "--engine", options.engine]
    if options.budget:
        command += ["--budget", str(options.budget)]
    # A session of its own, so that Ray's processes can be told from others'.
    return subprocess.Popen(
        [*command, *more],
        stdout=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env=AS_URGENT,
    )


def kills(options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    texts = sentences(options.data, options.texts)
    more = ["--workers", str(options.workers), "--part-texts", str(options.part_texts)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = table_of(texts, folder)
        assert _started(table, folder / "whole", options, *more).wait() == 0
        whole = _files(folder / "whole")
        finished: list[Path] = []
        left, runs = options.kills, 0
        while left or not finished:
            out = folder / f"out-{len(finished)}"
            left, done = _disturbed(
                _started(table, out, options, *more), out, left, options, chance
            )
            runs += 1
            if done:
                finished.append(out)
        same = all(_files(out) == whole for out in finished)
        print(
            f"{options.kills} kills of {options.victims}, {runs} runs into {len(finished)} folders "
            f"of {len(whole)} files: equal bytes {same}"
        )
        if not same:
            raise SystemExit(1)


def _disturbed(
    process: subprocess.Popen[str],
    out: Path,
    left: int,
    options: argparse.Namespace,
    chance: random.Random,
) -> tuple[int, bool]:
    """Kills somebody of a run now and then; returns the kills left, and whether the run ended."""
    while left > 0 and _next_part(process, out):
        time.sleep(chance.uniform(*options.pause))
        victims = options.victims
        if victims == "both":  # workers first, then the driver
            victims = "workers" if left > options.kills // 2 else "driver"
        if process.poll() is None and _kill(process, victims, chance):
            left -= 1
            print(f"kill {options.kills - left}, of {victims}: {_parts(out)} parts", flush=True)
            if victims == "driver":
                break
    code = process.wait()
    end_session(process.pid)
    if code not in (0, -signal.SIGKILL):
        raise SystemExit(f"the run ended with the exit code {code}")
    return left, code == 0


def _next_part(process: subprocess.Popen[str], out: Path) -> bool:
    """Waits until one more part is done, so that others are at work; False where the run ends."""
    before = _parts(out)
    while process.poll() is None:
        if _parts(out) > before:
            return True
        time.sleep(0.05)
    return False


def _parts(out: Path) -> int:
    return len(list(out.glob("parts/*.parquet")))


def _kill(process: subprocess.Popen[str], victims: str, chance: random.Random) -> bool:
    """Kills the run, or one of its workers; False where there is none."""
    if victims == "driver":
        process.kill()
        return True
    workers = workers_of(process.pid)
    return bool(workers) and kill_process(chance.choice(workers))


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
                ended = _started(table, out, options, *more).wait()
                assert ended in (0, 1)  # 1: some texts are too long for so few calls
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
    parser.add_argument("--victims", choices=["driver", "workers", "both"], default="driver")
    parser.add_argument("--part-texts", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.0, 2.0))
    parser.add_argument("--minutes", type=float, default=0, help="0: to the end")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    commands[options.part](options)


if __name__ == "__main__":
    main()
