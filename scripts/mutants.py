"""Which small mistakes in the code would no test notice?

    python scripts/mutants.py --sample 60
    python scripts/mutants.py --only metrics/statistics.py

Each mutant has one mistake: an operator turned round, a number changed, ``min`` in the place of
``max``, a condition reversed. The tests named for its module run against a copy of the package with
the mutant in it, and should fail. What is printed are the survivors, each with its line before and
after. A survivor is either equivalent (nothing that a user relies on differs) or a missing test.
Tuned numbers in settings are left alone, because they may differ.

``make mutants`` runs a sample.

Survivors that were looked at and need no test:

    slalom/fit.py        ``_fit_one_score``: ``flat > 0`` turned round names the kinds of a grid the
                         other way, and all of them are tried; ``_rank_pairs``: keepdim, of one text
    slalom/solver.py     ``find_posterior``: ``columns * size`` matters to several outputs alone
    metrics/meaning.py   from how many contests on there is a number
    serve/store/jobs.py  how long a preview is, and when a worker without a sign is forgotten
    serve/store/file.py  ``allow_nan``, as no number comes here unchecked
    serve/store/file.py  whether folders above that of the store are made, too
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = Path("src/slalom_xai")
UNIT = "tests/unit/test_"
QUERIES = [
    *(
        f"{UNIT}{name}.py"
        for name in ("turns", "batching", "sharing", "cache", "meaning", "queries")
    ),
    "tests/integration/test_training.py::test_batches_hold_every_row_once_within_their_bounds",
]
OF_THE_QUEUE = (  # without a server, which takes long to start
    "a_queue_has_an_end",
    "a_job_whose_worker_died_is_taken_alone_and_given_up_after_three_times",
    "a_worker_that_is_told_to_stop_costs_no_attempt",
    "jobs_of_a_worker_that_gives_no_sign_wait_again",
    "jobs_with_and_without_a_second_text_are_never_asked_in_one_list",
    "the_result_of_a_job_that_was_cancelled_is_kept_and_the_job_stays_cancelled",
)
STORE = [
    *(f"tests/serve/test_jobs.py::test_{name}" for name in OF_THE_QUEUE),
    "tests/serve/test_damage.py",
]
TESTS = {  # the closest tests of each module or folder, the quick ones first
    "slalom/formula.py": [f"{UNIT}slalom_room.py"],
    "slalom/solver.py": [f"{UNIT}slalom_room.py", f"{UNIT}slalom_runs.py"],
    "slalom/fit.py": [f"{UNIT}slalom_room.py", f"{UNIT}slalom_runs.py"],
    "methods/slalom.py": [f"{UNIT}slalom_runs.py", "tests/integration/test_faithful.py"],
    "queries": QUERIES,
    "metrics": [f"{UNIT}metrics.py", f"{UNIT}meaning.py"],
    "data/audit/trials.py": ["tests/data/audit/test_trials.py"],
    "data/audit/groups.py": ["tests/data/audit/test_groups.py"],
    "serve/store": STORE,
}
TURNED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OTHER = {"min": "max", "max": "min", "any": "all", "all": "any", "amin": "amax", "amax": "amin"}


def changed(node: ast.expr) -> str | None:
    """An expression with a mistake in it; None where none is known for its kind."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in TURNED:
            return ast.unparse(ast.BinOp(left, TURNED[type(op)](), right))
        case ast.BoolOp(op, values):
            return ast.unparse(ast.BoolOp(TURNED[type(op)](), values))
        case ast.Compare(left, [op, *more], right) if type(op) in TURNED:
            return ast.unparse(ast.Compare(left, [TURNED[type(op)](), *more], right))
        case ast.UnaryOp(ast.Not() | ast.USub(), operand):
            return ast.unparse(operand)
        case ast.Constant(bool(value)):
            return str(not value)
        case ast.Constant(int(value) | float(value)):
            return repr(value + 1)
        case ast.Name(name) if name in OTHER:
            return OTHER[name]
        case ast.Attribute(value, name) if name in OTHER:
            return f"{ast.unparse(value)}.{OTHER[name]}"
        case ast.IfExp(test, body, other):
            return ast.unparse(ast.IfExp(test, other, body))
    return None


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Those that are computed: no annotations, f-strings, decorators or defaults of settings."""
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in field if isinstance(field, list) else [field]:
            in_settings = isinstance(node, ast.ClassDef) and isinstance(child, ast.AnnAssign)
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr) or in_settings:
                continue
            if isinstance(child, ast.expr):
                yield child
            yield from expressions(child)


def mutants(path: Path) -> Iterator[tuple[str, str, str]]:
    """Mutants of a file: where, with the line before and after; and their whole text."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node in expressions(ast.parse(text)):
        new = changed(node)
        if new is None or node.end_lineno is None or node.end_col_offset is None:
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = " ".join(text[begin:end].decode().split())
        mutant = text[:begin] + f"({new})".encode() + text[end:]
        where = f"{path.relative_to(ROOT / PACKAGE)}:{node.lineno}"
        yield where, f"{old}  ->  {new}", mutant.decode()


def notices(source: Path, tests: list[str], limit: int) -> bool:
    """Whether tests fail, or do not end in so many seconds, with the package in a folder."""
    child = os.fork()  # torch, which takes long to import, is there already
    if child == 0:
        signal.alarm(limit)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1), os.dup2(nowhere, 2)
        os.environ["PYTHONPATH"] = str(source)
        sys.path.insert(0, str(source))
        import pytest

        marks = "not bench and not long and not ray and not slow"
        quiet = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore:Module already imported"]
        code = pytest.main([*quiet, "-m", marks, *tests])
        os._exit(int(code))
    return os.waitpid(child, 0)[1] != 0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", nargs="*", default=list(TESTS), choices=list(TESTS))
    options.add_argument("--sample", type=int, help="so many mutants, drawn by lot")
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    os.chdir(ROOT)
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    import sklearn  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source)
        drawn = []
        limits = {}
        for part in given.only:
            begun = time.monotonic()
            if notices(source, TESTS[part], 3600):
                sys.exit(f"error: the tests of {part} fail without a mutant")
            limits[part] = 20 + 3 * int(time.monotonic() - begun)
            place = ROOT / PACKAGE / part
            for path in sorted(place.glob("*.py")) if place.is_dir() else [place]:
                drawn += [(part, path, *mutant) for mutant in mutants(path)]
        random.Random(given.seed).shuffle(drawn)
        survivors = 0
        for number, (part, path, where, change, text) in enumerate(drawn[: given.sample], start=1):
            copy = source / path.relative_to(ROOT / "src")
            copy.write_text(text, encoding="utf-8")
            if not notices(source, TESTS[part], limits[part]):
                survivors += 1
                print(f"survived  {where}  {change}", flush=True)
            shutil.copy(path, copy)
            if number % 10 == 0:
                print(f"{number} of {len(drawn[: given.sample])} mutants", file=sys.stderr)
        print(f"{survivors} of {len(drawn[: given.sample])} mutants survived")


if __name__ == "__main__":
    main()
