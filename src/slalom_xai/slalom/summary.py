"""What is read off fits: Shapley values, standard errors, and how well they predict other calls.

Texts with as many units are worked on together.

Shapes: B texts, m calls, n units, C columns (explained outputs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from slalom_xai.slalom.errors import estimate_errors
from slalom_xai.slalom.fit import FittedForm, OneScore, fit_one_scores
from slalom_xai.slalom.formula import Formulas
from slalom_xai.slalom.linear import LinearFits, fit_linear
from slalom_xai.slalom.shapley import compute_shapley, fit_rest
from slalom_xai.slalom.trust import Agreement, compare_many
from slalom_xai.system.process import work_side_by_side

_FEW = 10  # units removed: up to so many are few
_CELLS = 300_000  # calls times units that are worked on at once

Calls = tuple[Tensor, Tensor]  # perturbed texts (m, n) and the model's outputs (m, C)
Compared = list[list[Agreement]]  # for each column, the formula, the linear one, and one score


@dataclass(frozen=True)
class SummaryRequest:
    """One fitted text.

    Attributes:
        fitted: what was fitted to it.
        calls: that it was fitted to, the whole text first.
        tests: other calls, with few units removed and with any number; None: each call is predicted
            from the others.
        orders: behind Shapley values.
        orders_of_errors: behind their standard errors.
        least: calls without which nothing is tested.
        least_few: calls with few units removed, below which all calls stand for them.
    """

    fitted: FittedForm
    calls: Calls
    tests: tuple[Calls, Calls] | None
    orders: int
    orders_of_errors: int
    least: int
    least_few: int


@dataclass(frozen=True)
class Summary:
    """What one fit says.

    Attributes:
        shapley: (n, C).
        errors: for each column, standard errors by score, (n,) each.
        few: how well changes are predicted where few units are removed; None where nothing is
            tested.
        any: the same for any number of them.
    """

    shapley: Tensor
    errors: tuple[dict[str, Tensor], ...]
    few: Compared | None
    any: Compared | None


def summarise(requests: Sequence[SummaryRequest]) -> list[Summary]:
    """Reads off many fits at once."""
    one_scores = fit_one_scores([request.fitted for request in requests])
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, request in enumerate(requests):
        form = request.fitted.form
        groups = len(request.fitted.jackknife[0])
        alike.setdefault((form.units, len(form.centre), groups, request.orders), []).append(number)
    parts: list[list[int]] = []
    for numbers in alike.values():
        numbers.sort(key=lambda number: len(requests[number].calls[0]))
        most = max(1, _CELLS // requests[numbers[-1]].calls[0].numel())
        parts += [numbers[start : start + most] for start in range(0, len(numbers), most)]

    def read(numbers: list[int]) -> list[Summary]:
        return _summarise_alike(
            [requests[number] for number in numbers], [one_scores[number] for number in numbers]
        )

    found: dict[int, Summary] = {}
    for numbers, some in zip(parts, work_side_by_side(read, parts), strict=True):
        found.update(zip(numbers, some, strict=True))
    return [found[number] for number in range(len(requests))]


def _summarise_alike(
    requests: Sequence[SummaryRequest], one_scores: Sequence[OneScore]
) -> list[Summary]:
    """Texts with as many units and outputs."""
    fitted, first = [one.fitted for one in requests], requests[0]
    pad = torch.nn.utils.rnn.pad_sequence
    counts, outputs = (
        pad([one.calls[side] for one in requests], batch_first=True) for side in range(2)
    )
    told = pad([torch.ones(len(one.calls[0])) for one in requests], batch_first=True).to(outputs)
    forms = join_forms(one.form.split() for one in fitted)
    left = (outputs - forms.predict_each(counts)) * told[..., None]
    rest = fit_rest(counts, left, told=told)
    shares = compute_shapley(forms, first.orders).reshape(len(requests), -1, forms.units)
    shapley = shares.transpose(1, 2) + rest
    errors = estimate_errors(fitted, counts, left, told, first.orders_of_errors)
    linear = fit_linear(counts, outputs, told)
    tested = _test(requests, forms, linear, one_scores)
    return [
        Summary(
            shapley[number],
            tuple(
                {name: scores[number, column] for name, scores in errors.items()}
                for column in range(outputs.shape[2])
            ),
            *tested[number],
        )
        for number in range(len(requests))
    ]


def join_forms(forms: Iterable[Formulas]) -> Formulas:
    """The columns of several formulas, one after the other."""
    first, *others = forms
    return first.join(*others) if others else first


def _test(
    requests: Sequence[SummaryRequest],
    forms: Formulas,
    linear: LinearFits,
    one_scores: Sequence[OneScore],
) -> list[tuple[Compared | None, Compared | None]]:
    """How well changes are predicted, few and any, for each text."""
    single = join_forms(one.form.split() for one in one_scores)
    full = linear.full

    def predict(counts: Tensor) -> Tensor:
        """Changes (B, 3, m, C) that the three formulas predict for (B, m, n)."""
        whole = torch.ones_like(counts[:, :1])
        two, one = (
            form.predict_each(counts) - form.predict_each(whole) for form in (forms, single)
        )
        return torch.stack([two, (counts - 1) @ linear.scores, one], dim=1)

    both: list[dict[int, tuple[Tensor, Tensor]]] = [{}, {}]  # changes (3, m, C) and outputs (m, C)
    tested = [number for number, one in enumerate(requests) if one.tests is not None]
    for kind, changes in enumerate(both):
        tests = {number: requests[number].tests for number in tested}
        rows = {number: test[kind] for number, test in tests.items() if test is not None}
        if rows:
            counts = torch.nn.utils.rnn.pad_sequence(
                [
                    rows[number][0] if number in rows else torch.ones(1, forms.units).to(full)
                    for number in range(len(requests))
                ],
                batch_first=True,
                padding_value=1.0,
            )
            predicted = predict(counts)
            for number, (table, outputs) in rows.items():
                changes[number] = predicted[number, :, : len(table)], outputs
    for number, one in enumerate(requests):
        if one.tests is None and len(one.calls[0]) >= one.least:
            few, every = _leave_out(one, linear.left_out[number], one_scores[number])
            both[0][number], both[1][number] = few, every
    compared = [_compare(changes, full) for changes in both]
    return [(compared[0].get(number), compared[1].get(number)) for number in range(len(requests))]


def _leave_out(
    request: SummaryRequest, linear: Tensor, one_score: OneScore
) -> list[tuple[Tensor, Tensor]]:
    """Changes of each call as predicted from the others: few units removed, and any number."""
    (counts, outputs), fitted = request.calls, request.fitted
    whole = [one.predict(torch.ones_like(counts[:1])) for one in (fitted.form, one_score.form)]
    predicted = torch.stack(
        [
            fitted.left_out - whole[0],
            linear[: len(counts)] - outputs[0],
            one_score.left_out - whole[1],
        ]
    )
    missing = (1 - counts).clamp(min=0).sum(dim=1)
    removed = missing > 0
    few = removed & (missing <= _FEW)
    if int(few.sum()) < request.least_few:
        few = removed
    return [(predicted[:, part], outputs[part]) for part in (few, removed)]


def _compare(changes: dict[int, tuple[Tensor, Tensor]], full: Tensor) -> dict[int, Compared]:
    """Agreements of each text; those with as many calls at once."""
    alike: dict[int, list[int]] = {}
    for number, (_, outputs) in changes.items():
        alike.setdefault(len(outputs), []).append(number)
    found: dict[int, Compared] = {}
    columns = full.shape[1]
    for numbers in alike.values():
        predicted = torch.stack([changes[number][0] for number in numbers])  # (B, 3, m, C)
        outputs = torch.stack([changes[number][1] for number in numbers])
        true = outputs - full[numbers][:, None]
        levels = outputs.abs().amax(dim=1).flatten().tolist()
        each = compare_many(
            predicted.permute(0, 3, 1, 2).flatten(0, 1), true.transpose(1, 2).flatten(0, 1), levels
        )
        for place, number in enumerate(numbers):
            found[number] = each[place * columns : (place + 1) * columns]
    return found
