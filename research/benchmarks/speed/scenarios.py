"""What is measured. Each function in ``SCENARIOS`` writes records to the file of results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from research.benchmarks.results_file import ResultsFile, machine, say
from research.benchmarks.speed.labs import load_lab
from research.benchmarks.speed.measure import (
    COMPARED,
    OURS,
    beside_forward_passes,
    build,
    ours,
    ratio,
)
from research.benchmarks.speed.memory import peak
from research.benchmarks.speed.others import OTHERS, PUBLISHED, missing
from research.benchmarks.speed.subjects import Lab, Predict, Subject
from research.benchmarks.speed.texts import sentences, text_of, texts_of
from research.benchmarks.speed.users import USERS, Check
from research.clock import clocked
from slalom_xai.methods import slalom
from slalom_xai.slalom.fit import FirstFit, FitRequest, begin_fits, fit_forms
from slalom_xai.slalom.settings import FIT

Record = dict[str, Any]
TOKENS = {"granularity": "token"}  # every token has a score, so that sizes are what they say
RIVALS = ("shap-partition", "shap-kernel", "lime")
CALLS = (100, 150, 200, 300, 400, 500, 700, 1000, 1500, 2000, 3000, 5000)  # tried by ours
GROWTH: dict[str, tuple[str, dict[str, int], tuple[int, ...]]] = {  # model, what stays, values
    "calls": ("tiny", {"tokens": 64}, (250, 500, 1000, 2000, 4000)),
    "tokens": ("thin", {"calls": 1000}, (32, 128, 512)),
    "classes": ("tiny", {"calls": 1000, "tokens": 64}, (2, 6, 20)),
    "texts": ("tiny", {"calls": 300, "tokens": 16}, (1, 10, 100, 300)),
}
LLAMA_BYTES = 40 * 2**30  # of free memory, to run 7 billion parameters
TOLD = (
    *("failed", "calls", "seconds", "few", "any", "r2", "mib", "parts"),
    *("difference", "outputs_too"),
)


@dataclass(frozen=True)
class Bench:
    """Options that scenarios share, and where results go.

    Attributes:
        log: the file of results, with the time limit.
        device: "cpu" or "cuda".
        models: instead of the usual one, where a scenario allows it.
        methods: only these; empty: all.
        data: a table of texts; None: made ones.
        texts: sentences in a list.
        smallest: whether every size is as small as it can be, to see that all of it runs.
    """

    log: ResultsFile
    device: str = "cpu"
    models: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    data: Path | None = None
    texts: int = 1000
    smallest: bool = False

    def size(self, usual: int, least: int) -> int:
        """A size, or the least one."""
        return least if self.smallest else usual

    def lab(self, name: str, classes: int = 2) -> Lab:
        """A model on the device."""
        return load_lab(name, self.device, classes)

    def labs(self, usual: str) -> list[Lab]:
        """The models for a scenario, by default one."""
        return [self.lab(name) for name in self.models or (usual,)]

    def measure(
        self,
        part: str,
        lab: Lab,
        setting: str,
        method: str,
        work: Callable[..., Record],
        *given: Any,
    ) -> Record:
        """Writes what a measurement gives, or why it failed, which stops nothing else.

        Returns:
            The record; empty where nothing was measured.
        """
        label = f"{part}: {lab.name}, {setting}, {method}"
        if (self.methods and method not in self.methods) or self.log.late(label):
            return {}
        record = {"part": part, "model": lab.name, "note": lab.note, **machine(self.device)}
        record |= {"setting": setting, "method": method}
        library = missing(method)
        try:
            if library:
                raise ModuleNotFoundError(f"{library} is not installed")
            record |= work(*given)
        except Exception as error:  # whatever another library raises
            record["failed"] = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        self.log.write(record)
        told = {name: value for name, value in record.items() if name in TOLD}
        if record.get("forward"):
            told["ratio"] = ratio(record["seconds"], record["forward"])
        say(f"{label}: {told}")
        return {} if "failed" in record else record


def one_text(
    bench: Bench,
    part: str,
    lab: Lab,
    sizes: tuple[int, int],
    methods: Sequence[str],
    options: dict[str, Any],
    turns: int = 3,
) -> None:
    """Several methods on one text.

    Args:
        bench: what all scenarios share.
        part: name of the scenario.
        lab: the model.
        sizes: tokens of the text, and calls of the model.
        methods: their names.
        options: of our explainer.
        turns: of ours; others take one.
    """
    tokens, calls = bench.size(sizes[0], 8), bench.size(sizes[1], 64)
    subject = Subject(lab, texts_of(bench.data, lab.tokenizer, tokens, 1)[0])
    for method in methods:
        given = (subject, method, calls, options, turns)
        bench.measure(part, lab, f"{tokens} tokens", method, _explain_one, *given)


def _explain_one(
    subject: Subject, method: str, calls: int, options: dict[str, Any], turns: int
) -> Record:
    """One method; also its errors, where outputs mean something."""
    lab, by_us = subject.lab, method in OURS
    short = Subject(lab, text_of(lab.tokenizer, 12, seed=1))
    explain = build(lab, method, calls, **options)
    # Ours find out once what the model's outputs can be; others are imported.
    (explain if by_us else build(lab, method, 100))(short)
    predict, rows, record = beside_forward_passes(
        lambda: explain(subject), lab, turns if by_us else 1, by_us=by_us
    )
    if lab.trained and options == COMPARED:
        record |= subject.errors(predict, set(rows))
    return record | {"budget": calls}


def one(bench: Bench) -> None:
    """One text and every method with the same number of calls; on a GPU larger models."""
    if bench.device == "cpu" or bench.models:
        for lab in bench.labs("bundled"):
            one_text(bench, "one", lab, (200, 2000), (*OURS, *OTHERS), COMPARED)
        return
    paper = ("slalom-eff", "slalom-fidel", *PUBLISHED)
    one_text(bench, "one", bench.lab("minilm"), (100, 1000), ("slalom", "linear"), {}, turns=5)
    one_text(bench, "one", bench.lab("distil2"), (200, 5000), paper, COMPARED, turns=5)
    if torch.cuda.mem_get_info()[0] > LLAMA_BYTES:
        lab = bench.lab("llama7b")
        one_text(bench, "one", lab, (64, 1000), ("slalom",), {"removal": "hide"})
        lab.model.to("meta")
        torch.cuda.empty_cache()


def deep(bench: Bench) -> None:
    """One text and a model of six layers, once, because it takes long on a CPU."""
    one_text(bench, "deep", bench.lab("minilm"), (200, 2000), ("slalom",), TOKENS, turns=1)


def thin(bench: Bench) -> None:
    """What is left where the model takes no time: fits and reports, with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    one_text(bench, "thin", bench.lab("thin"), (128, 5000), ("slalom",), TOKENS)
    torch.set_num_threads(before)


def long(bench: Bench) -> None:
    """One text that is as long as the bundled model reads, special tokens included."""
    methods = ("slalom", *RIVALS)
    one_text(bench, "long", bench.lab("bundled"), (510, 2000), methods, COMPARED, turns=1)


def sentence_list(bench: Bench) -> None:
    """A list of short texts in one call, with the usual calls and with few."""
    for lab in bench.labs("bundled" if bench.device == "cpu" else "minilm"):
        texts = sentences(lab.tokenizer, bench.size(bench.texts, 4))
        for budget, most in ((None, ""), (64, ", at most 64 calls each")):
            given = (lab, texts, {"calls": budget}, 1 if bench.device == "cpu" else 3)
            setting = f"{len(texts)} sentences{most}"
            bench.measure("list", lab, setting, "slalom", _explain_list, *given)


def _explain_list(lab: Lab, texts: list[str], options: dict[str, Any], turns: int) -> Record:
    explainer = ours(lab, **options)
    explainer(sentences(lab.tokenizer, 4))  # warms up, and finds out what the outputs can be
    record = beside_forward_passes(lambda: explainer(texts), lab, turns)[2]
    return record | {"texts": len(texts)}


def sooner(bench: Bench) -> None:
    """The fewest calls with which ours errs no more than other libraries with 5,000."""
    tokens, count = bench.size(100, 8), bench.size(5, 2)
    for lab in bench.labs("bundled"):
        texts = texts_of(bench.data, lab.tokenizer, tokens, count)
        given = ("sooner", lab, f"{count} texts of {tokens} tokens")
        subjects = [Subject(lab, text) for text in texts]
        theirs = []
        for rival in RIVALS:
            calls = bench.size(5000, 50)
            theirs.append(bench.measure(*given, rival, _means, subjects, rival, calls))
        best = min((one["any"] for one in theirs if one), default=math.nan)
        for calls in CALLS:
            if math.isnan(best):
                break
            mine = bench.measure(*given, "slalom", _means, subjects, "slalom", calls)
            if not mine or mine["any"] <= best:
                break


def _means(subjects: Sequence[Subject], method: str, calls: int) -> Record:
    """Means over texts of the seconds and of the error; ours are timed three times."""
    explain = build(subjects[0].lab, method, calls, **COMPARED)
    explain(subjects[0])  # warms up
    seconds, errors = [], []
    for subject in subjects:
        taken, predict = _timed(explain, subject, 3 if method in OURS else 1)
        seconds.append(taken)
        errors.append(subject.errors(predict)["any"])
    return {"calls": calls, "seconds": [float(np.mean(seconds))], "any": float(np.mean(errors))}


def _timed(
    explain: Callable[[Subject], Predict], subject: Subject, turns: int
) -> tuple[float, Predict]:
    """The median of the seconds, and the last explanation."""
    found: list[Predict] = []
    device = subject.lab.device
    taken = [clocked(lambda: found.append(explain(subject)), device) for _ in range(turns)]
    return statistics.median(taken), found[-1]


def users(bench: Bench) -> None:
    """As a user runs them: with defaults, on a pipeline."""
    tokens, count = bench.size(100, 8), bench.size(5, 1)
    for lab in bench.labs("bundled"):
        texts = texts_of(bench.data, lab.tokenizer, tokens, count)
        setting = f"{count} texts of {tokens} tokens, defaults"
        for method, make in USERS.items():
            bench.measure("users", lab, setting, method, _as_a_user, lab, make, texts)


def _as_a_user(lab: Lab, make: Callable[[Lab], Callable[[str], Check]], texts: list[str]) -> Record:
    """Seconds for a text, and R² of what an explanation predicts of its own removals."""
    explain = make(lab)
    explain(text_of(lab.tokenizer, 8, seed=9))
    checks: list[Check] = []
    seconds = clocked(lambda: checks.extend(map(explain, texts)), lab.device)
    return {"seconds": [seconds / len(texts)], "r2": float(np.mean([check() for check in checks]))}


def memory(bench: Bench) -> None:
    """Peak of memory beyond the bundled model."""
    calls, tokens = bench.size(5000, 64), bench.size(200, 8)
    given = (_peak, calls, tokens)
    bench.measure("memory", bench.lab("bundled"), f"{tokens} tokens", "slalom", *given)


def _peak(calls: int, tokens: int) -> Record:
    mib, seconds = peak("bundled", calls, tokens)
    return {"calls": calls, "seconds": [seconds], "mib": mib}


def growth(bench: Bench) -> None:
    """How time grows with calls, tokens, classes and texts."""
    for axis, (model, fixed, values) in GROWTH.items():
        for value in values[: bench.size(len(values), 1)]:
            at = {"texts": 1, "classes": 2, **fixed, axis: value}
            if bench.smallest:
                at |= {"calls": 40, "tokens": 8}
            lab = bench.lab(model if bench.device == "cpu" else "distil2", at["classes"])
            texts = [text_of(lab.tokenizer, at["tokens"], seed) for seed in range(at["texts"])]
            given = (lab, texts, {"calls": at["calls"], **TOKENS}, axis, value)
            bench.measure("growth", lab, f"{value} {axis}", "slalom", _point, *given)


def _point(lab: Lab, texts: list[str], options: dict[str, Any], axis: str, value: int) -> Record:
    turns = 1 if len(texts) > 10 else 2
    return _explain_list(lab, texts, options, turns) | {"axis": axis, "at": value}


def agreement(bench: Bench) -> None:
    """How much scores differ between a GPU and a CPU, of the same outputs and of their own."""
    for name in bench.models or ("minilm",):
        lab = bench.lab(name)
        texts = sentences(lab.tokenizer, bench.size(20, 2))
        setting = f"{len(texts)} sentences, GPU and CPU"
        bench.measure("agreement", lab, setting, "slalom", _difference, lab, load_lab(name), texts)


def _difference(lab: Lab, on_cpu: Lab, texts: list[str]) -> Record:
    requests: list[FitRequest] = []

    def keep(some: Sequence[FitRequest]) -> list[FirstFit]:
        requests.extend(some)
        return begin_fits(some)

    with mock.patch.object(slalom, "begin_fits", keep):
        here = ours(lab, calls=256)(texts)
    there = ours(on_cpu, calls=256)(texts)
    eager = replace(FIT, cells_on_gpu=(0, FIT.cells_on_gpu[1]))
    fits = (
        fit_forms([replace(one, device=device, settings=eager) for one in requests])
        for device in (lab.device, torch.device("cpu"))
    )
    removals = (
        np.concatenate([one.form.split().score("removal").numpy().ravel() for one in some])
        for some in fits
    )
    whole = (np.concatenate([one.scores() for one in some]) for some in (here, there))
    return {"difference": _apart(*removals), "outputs_too": _apart(*whole)}


def _apart(one: Any, other: Any) -> float:
    """The largest difference, as a share of the largest score."""
    return float(np.abs(one - other).max() / np.abs(other).max())


SCENARIOS: dict[str, Callable[[Bench], None]] = {
    "one": one,
    "list": sentence_list,
    "sooner": sooner,
    "users": users,
    "long": long,
    "growth": growth,
    "memory": memory,
    "thin": thin,
    "deep": deep,
    "agreement": agreement,
}
CPU_ONLY, GPU_ONLY = ("deep", "memory", "thin"), ("agreement",)
