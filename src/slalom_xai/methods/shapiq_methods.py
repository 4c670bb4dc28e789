"""Three estimators of the package shapiq, over units and all explained columns.

``proxyspex`` fits boosted trees to random rows, reads interactions off them and fits those again;
what they give of single units and of pairs is the explanation. ``regression-msr`` estimates
Shapley values from trees and from what the trees leave. ``leverage-shap`` solves Kernel SHAP's
regression on rows drawn by their leverage.

The text is compared with the empty text, as in ``shap_methods``.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from slalom_xai.errors import InputError, optional_package
from slalom_xai.methods.additive import AdditiveSurrogate, PairsSurrogate
from slalom_xai.methods.base import Estimator, Findings, predicted_by, register
from slalom_xai.methods.evidence import calls_to_fit
from slalom_xai.methods.shap_methods import ShapModel
from slalom_xai.queries import Queries
from slalom_xai.system.process import silence_and_seed

_PYTHON = (3, 12)  # the first that shapiq 1.8 runs on
_INSTALL = 'pip install "slalom-xai[shapiq]"'


@dataclass(frozen=True)
class _FromShapiq(Estimator):
    """A method of the package shapiq."""

    estimates: ClassVar[str] = "shapley"
    approximator: ClassVar[str]  # its name in shapiq.approximator
    trees: ClassVar[str | None] = None  # the package of its trees

    def parameters(self, units: int, distinct: int) -> int:
        """Three calls a unit, as for the methods of the package shap."""
        return 3 * units

    @abstractmethod
    def make(self, approximator: Any, units: int, seed: int) -> Any:
        """The approximator for so many units."""

    def explain(self, queries: Queries, rng: np.random.Generator) -> Findings:
        """Asks the rows that shapiq draws, once for all columns."""
        what = f"method {self.name!r}"
        approximator = shapiq_approximator(self.approximator, what)
        if self.trees is not None:
            optional_package(self.trees, what)
        model = ShapModel(queries)
        full = queries.ask_whole()
        calls = calls_to_fit(queries, 2 * model.units)
        if model.all_affordable:
            calls = 2**model.units
        columns = []
        with silence_and_seed(rng):
            seed = int(rng.integers(2**31))
            for column in range(len(full)):
                # The same seed draws the same rows, which cost nothing when they are asked again.
                made = self.make(approximator, model.units, seed)
                found = made.approximate(budget=calls, game=_Game(model, column))
                columns.append(dict(found.dict_values))
        surrogate = from_interactions(columns, model.units, full)
        return predicted_by(queries, surrogate, rng, model.notes)


@register
@dataclass(frozen=True)
class ProxySpex(_FromShapiq):
    """Sparse interactions by boosted trees (Butler et al. 2025): ``shapiq.ProxySPEX``.

    Interactions of up to two units are kept, by the index that predicts best (Faith-Shap).

    Args:
        tuned: searches a grid for the best trees, as published. That takes most of a minute, and
            only one setting is used otherwise.
    """

    tuned: bool = True

    name: ClassVar[str] = "proxyspex"
    summary: ClassVar[str] = (
        "sparse interactions read off boosted trees; needs the packages shapiq and lightgbm, and "
        "at least 3 calls per unit"
    )
    approximator: ClassVar[str] = "ProxySPEX"
    trees: ClassVar[str | None] = "lightgbm"

    def make(self, approximator: Any, units: int, seed: int) -> Any:
        """Pairs of units, by shapiq's own defaults for the trees."""
        made = approximator(n=units, max_order=2, index="FSII", hpo=self.tuned, random_state=seed)
        quiet = "estimator__verbose" if self.tuned else "verbose"
        made.proxy_model.set_params(**{quiet: -1})  # lightgbm prints a line per tree
        return made


@register
@dataclass(frozen=True)
class RegressionMsr(_FromShapiq):
    """Shapley values by trees and by what they leave (Witter et al. 2025)."""

    name: ClassVar[str] = "regression-msr"
    summary: ClassVar[str] = (
        "Shapley values by boosted trees and what they leave; needs the packages shapiq and "
        "xgboost, and at least 3 calls per unit"
    )
    approximator: ClassVar[str] = "RegressionMSR"
    trees: ClassVar[str | None] = "xgboost"

    def make(self, approximator: Any, units: int, seed: int) -> Any:
        """By shapiq's own defaults."""
        return approximator(n=units, index="SV", random_state=seed)


@register
@dataclass(frozen=True)
class LeverageShap(_FromShapiq):
    """Shapley values by regression on rows drawn by leverage (Musco and Witter 2025)."""

    name: ClassVar[str] = "leverage-shap"
    summary: ClassVar[str] = (
        "Shapley values by regression on rows drawn by their leverage; needs the package shapiq "
        "and at least 3 calls per unit"
    )
    approximator: ClassVar[str] = "LeverageSHAP"

    def make(self, approximator: Any, units: int, seed: int) -> Any:
        """By shapiq's own defaults."""
        return approximator(n=units, random_state=seed)


class _Game:
    """One column of the model as shapiq sees it.

    Args:
        model: answers masks.
        column: which.
    """

    def __init__(self, model: ShapModel, column: int) -> None:
        self._model, self._column = model, column

    def __call__(self, masks: NDArray[Any]) -> NDArray[np.float64]:
        """Outputs (m,) for masks (m, n)."""
        return self._model(masks)[:, self._column]


def shapiq_approximator(name: str, what: str) -> Any:
    """A class of ``shapiq.approximator``.

    Args:
        name: of the class.
        what: needs it, for the message.

    Raises:
        InputError: shapiq cannot be had here, or is too old; the message says what to install.
    """
    if sys.version_info < _PYTHON:
        needed, here = (".".join(map(str, version[:2])) for version in (_PYTHON, sys.version_info))
        raise InputError(
            f"{what} needs the package shapiq 1.8, which runs on Python {needed} or later, and "
            f"this is Python {here}: use a later Python and {_INSTALL}"
        )
    package = optional_package("shapiq.approximator", what)
    if not hasattr(package, name):
        raise InputError(f"{what} needs the package shapiq 1.8 or later: {_INSTALL}")
    return getattr(package, name)


def from_interactions(
    columns: list[dict[tuple[int, ...], float]], units: int, full: Tensor
) -> AdditiveSurrogate | PairsSurrogate:
    """The function that adds up interactions of the units kept, moved to meet the whole text.

    Args:
        columns: what shapiq found for each: by the units, one or two of them; others are ignored.
        units: how many.
        full: (C,), the model's own output on the whole text.
    """
    pairs = sorted({tuple(sorted(key)) for found in columns for key in found if len(key) == 2})
    mains, joints = full.new_zeros(units, len(full)), full.new_zeros(len(pairs), len(full))
    places = {pair: place for place, pair in enumerate(pairs)}
    for column, found in enumerate(columns):
        for key, number in found.items():
            if len(key) == 1:
                mains[key[0], column] += number
            if len(key) == 2:
                # Kept together, x y = 1 - (1 - x) - (1 - y) + (1 - x)(1 - y).
                mains[list(key), column] += number
                joints[places[tuple(sorted(key))], column] -= number
    if not pairs:
        return AdditiveSurrogate(mains, full)
    return PairsSurrogate(mains, full.new_tensor(pairs), joints, full)
