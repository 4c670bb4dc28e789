"""The theorems behind the scores as code that runs: each claim with checks, tables and figures."""

from __future__ import annotations

from importlib import import_module

from slalom_xai.theory.base import (
    Check,
    Outcome,
    Reproduction,
    Settings,
    in_order,
    registered,
    reproduction,
)

__all__ = [
    "Check",
    "Outcome",
    "Reproduction",
    "Settings",
    "reproduction",
    "reproductions",
]

# In the order in which a reader meets them: the paper, then the slides.
_MODULES: tuple[str, ...] = (
    "paper.repeats",
    "paper.sinks",
    "paper.construction",
    "paper.recovery",
    "paper.near_sums",
    "paper.unnormalised",
    "paper.soft_removal",
    "paper.shapley",
    "paper.shapley_steps",
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
    "slides.show_anchors",
    "slides.show_debate",
    "slides.show_counterfactual",
    "slides.show_histogram",
)


def reproductions() -> dict[str, Reproduction]:
    """Every reproduction by name, in the order of the modules, whichever was imported first."""
    modules = [import_module(f"slalom_xai.theory.{module}").__name__ for module in _MODULES]
    return in_order(registered().values(), modules)
