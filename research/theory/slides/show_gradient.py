"""The closed form of the classifier's gradient, run against automatic differentiation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from research.base import Outcome, Settings, at_least, at_most, reproduction
from research.drawing import COLOURS, panels
from research.theory.paper.synthetic import one_thread
from research.theory.slides.classifier import AttentionClassifier, head_count
from research.theory.slides.gradients import (
    GRADIENT_REDUCTIONS,
    closed_gradient,
    differentiated,
    reduced,
)
from research.theory.slides.reviews import (
    EXAMPLE_REVIEW,
    STRENGTH,
    tokenizer,
    trained_classifier,
    write_reviews,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = (1, 2, 4)
TEXTS = 20
LOWERED = {"rude": -7, "fresh": -7}  # points: labels that would cover others


@reproduction(
    name="closed-gradient",
    title="The gradient of one attention layer has a closed form",
    source="Lopardo, Precioso and Garreau 2024, gradient theorem",
)
@one_thread()
def closed_form(settings: Settings) -> Outcome:
    """Compares both gradients on trained models with one and several heads."""
    train, test = write_reviews(1500, settings.seed), write_reviews(TEXTS, settings.seed + 1)
    rows, asking, weighing, models = [], [], [], {}
    for heads in settings.track(HEADS, "models"):
        model = models[heads] = trained_classifier(train, settings.seed, heads=heads).double()
        texts = model.embed(test.ids, test.mask).detach()
        differences = pd.DataFrame([_differences(model, embedded) for embedded in texts])
        rows.append({"heads": heads, **differences.max()})
        asking += [_without_asking(model, embedded) for embedded in texts]
        weighing += [_without_weighing(model, embedded) for embedded in texts]
    table = pd.DataFrame(rows).astype({"heads": int})
    return Outcome(
        checks=(
            at_most(
                "largest difference to automatic differentiation, every entry and reduction",
                table.iloc[:, 1:].to_numpy().max(),
                1e-12,
            ),
            at_least("relative error at [CLS] when its query counts as given", min(asking), 1e-3),
            at_least("relative error when only attention times value is kept", min(weighing), 1e-2),
        ),
        tables={"differences": table},
        figures={"attention": lambda: _draw(models)},
        remarks=(
            f"Float64, {TEXTS} made-up reviews per model. The slides take the query of [CLS] as "
            "given; if it is differentiated too, "
            "its own gradient has one more term.",
        ),
    )


def _differences(model: AttentionClassifier, embedded: Tensor) -> dict[str, float]:
    """The closed form against automatic differentiation, entry by entry and reduced."""
    true, closed = differentiated(model, embedded), closed_gradient(model, embedded)
    differences = {"every entry": float((true - closed).abs().max())}
    for name in GRADIENT_REDUCTIONS:
        change = reduced(true, embedded, name) - reduced(closed, embedded, name)
        differences[name] = float(change.abs().max())
    return differences


def _without_asking(model: AttentionClassifier, embedded: Tensor) -> float:
    """The relative error at [CLS] of leaving out that it also asks."""
    true = differentiated(model, embedded)[0]
    as_given = closed_gradient(model, embedded, asking=False)[0]
    return float((true - as_given).norm() / true.norm())


def _without_weighing(model: AttentionClassifier, embedded: Tensor) -> float:
    """The relative error of leaving out that a place's attention changes with it."""
    true = differentiated(model, embedded)
    with torch.no_grad():
        attention = model.attention(embedded[None])[0]
        direct = torch.einsum("kt,ko,kow->tw", attention, model.head, model.value) / model.heads
    return float((true - direct)[1:].norm() / true[1:].norm())


def _draw(models: dict[int, AttentionClassifier]) -> Figure:
    """Attention beside the size of the gradient, token by token: they need not go together."""
    ids = torch.tensor(tokenizer()(EXAMPLE_REVIEW)["input_ids"])
    names = tokenizer().convert_ids_to_tokens(ids.tolist())
    figure, axes = panels(len(models), width=3.3, height=3.2)
    for index, (heads, model) in enumerate(models.items()):
        panel = axes[index]
        embedded = model.embed(ids[None])[0].detach()
        attention = model.attention(embedded[None])[0].mean(dim=0).detach()[1 : len(ids)]
        size = reduced(closed_gradient(model, embedded), embedded, "l2")[1 : len(ids)]
        panel.scatter(attention, size, s=14, color=COLOURS[index])
        for name, x, y in zip(names[1:], attention.tolist(), size.tolist(), strict=True):
            if name in STRENGTH:
                above = LOWERED.get(name, 3)
                panel.annotate(
                    name, (x, y), fontsize=6, xytext=(3, above), textcoords="offset points"
                )
        panel.set_title(head_count(heads), fontsize=9)
        panel.set_xlabel("attention, mean over heads")
    axes[0].set_ylabel("L2 norm of the gradient")
    return figure
