"""Runs the benchmark and prints its tables.

python -m benchmarks.speed --out speed.jsonl [--models embedded,minilm] [--parts calls] [--device cuda] [--seconds 540]
python -m benchmarks.speed --tables speed.jsonl
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.speed import labs, tables
from benchmarks.speed.log import Log, machine, read
from benchmarks.speed.measure import side_by_side
from benchmarks.speed.methods import Ours
from benchmarks.speed.subjects import Subject

OURS = ("slalom", "slalom-eff", "slalom-fidel", "linear")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("speed.jsonl"), help="results are added to this file (speed.jsonl)")
    parser.add_argument("--models", default="embedded", help="names or folders, with commas between them (embedded)")
    parser.add_argument("--methods", default=",".join(OURS))
    parser.add_argument("--calls", default="2000", help="model calls per text (2000)")
    parser.add_argument("--tokens", type=int, default=200, help="length of the text (200)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each (3)")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (cpu)")
    parser.add_argument("--threads", type=int, help="of torch; its own choice by default")
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing new after so many (3600)")
    parser.add_argument("--tables", type=Path, nargs="+", help="print tables of earlier results")
    given = parser.parse_args()
    if given.tables:
        print(tables.tables(read(given.tables)))
        return
    if given.threads:
        torch.set_num_threads(given.threads)
    log = Log(given.out, given.seconds)
    for name in given.models.split(","):
        lab = labs.lab(name, given.device)
        subject = Subject(lab, labs.text_of(lab.tokenizer, given.tokens))
        for calls in map(int, given.calls.split(",")):
            facts = {"part": "calls", "model": lab.name, "note": lab.note, "budget": calls, **machine(given.device)}
            side_by_side([Ours(lab, method, calls) for method in given.methods.split(",")], subject, given.repeats, log, facts)


if __name__ == "__main__":
    main()
