"""The theorems behind the scores as code that runs: each claim with checks, tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from slalom_xai.theory.base import (
    Check,
    Outcome,
    Reproduction,
    Settings,
    registered,
    reproduction,
    unknown_name,
)

__all__ = [
    "Check",
    "Outcome",
    "Reproduction",
    "Settings",
    "chosen",
    "reproduction",
    "reproductions",
]

# In the order in which a reader meets them: the paper, then the slides.
_MODULES: tuple[str, ...] = (
    "paper.repeats",
    "paper.sinks",
    "paper.construction",
    "paper.recovery",
    "paper.soft_removal",
    "paper.shapley",
    "paper.classes",
    "paper.concatenation",
    "paper.counterexample",
    "paper.alternating",
    "paper.gam_table",
    "paper.word_weights",
    "slides.show_explainers",
    "slides.show_gradient",
    "slides.show_lime",
    "slides.show_runs",
    "slides.show_debate",
    "slides.show_counterfactual",
    "slides.show_histogram",
)


def reproductions() -> dict[str, Reproduction]:
    """Every reproduction by name, in the order of the modules, whichever was imported first."""
    order = [import_module(f"slalom_xai.theory.{module}").__name__ for module in _MODULES]

    def position(claim: Reproduction) -> int:
        module = claim.run.__module__
        if module in order:
            return order.index(module)
        return len(order)  # claims from elsewhere come last

    claims = sorted(registered().values(), key=position)
    return {claim.name: claim for claim in claims}


def chosen(names: Iterable[str]) -> list[Reproduction]:
    """Reproductions by name, each once; "all" stands for every one.

    Raises:
        InputError: a name that is not known.
    """
    known, wanted = reproductions(), list(names)
    if "all" in wanted:
        return list(known.values())
    for name in wanted:
        if name not in known:
            raise unknown_name(name, known)
    return [known[name] for name in dict.fromkeys(wanted)]
