"""The closed form of the classifier's gradient, run against automatic differentiation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd
import torch
from torch import Tensor

from slalom_xai.theory.base import Outcome, Settings, at_least, at_most, reproduction
from slalom_xai.theory.drawing import COLOURS, panels
from slalom_xai.theory.paper.synthetic import one_thread
from slalom_xai.theory.slides.classifier import AttentionClassifier
from slalom_xai.theory.slides.gradients import REDUCTIONS, closed_gradient, differentiated, reduced
from slalom_xai.theory.slides.reviews import STRENGTH, tokenizer, trained_classifier, write_reviews

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = (1, 2, 4)
TEXTS = 20
TEXT = "the soup was superb and the bread was fresh but our waiter was rude so the bill was awful"
SOURCE = "Lopardo, Precioso and Garreau 2024, gradient theorem"


@reproduction(
    name="closed-gradient",
    title="The gradient of one attention layer has a closed form",
    source=SOURCE,
)
@one_thread()
def closed_form(settings: Settings) -> Outcome:
    """Compares both gradients on trained models with one and several heads, place by place and reduced."""
    train, test = write_reviews(1500, settings.seed), write_reviews(TEXTS, settings.seed + 1)
    rows, asking, weighing, models = [], [], [], {}
    for heads in settings.track(HEADS, "models"):
        model = models[heads] = trained_classifier(train, settings.seed, heads=heads).double()
        texts = model.embed(test.ids, test.mask).detach()
        row: dict[str, float] = {
            "heads": heads,
            "every entry": 0.0,
            **dict.fromkeys(REDUCTIONS, 0.0),
        }
        for embedded in texts:
            true, found = differentiated(model, embedded), closed_gradient(model, embedded)
            row["every entry"] = max(row["every entry"], float((true - found).abs().max()))
            for name in REDUCTIONS:
                change = reduced(true, embedded, name) - reduced(found, embedded, name)
                row[name] = max(row[name], float(change.abs().max()))
            as_given = closed_gradient(model, embedded, asking=False)
            asking.append(float((true - as_given)[0].norm() / true[0].norm()))
            weighing.append(_without_weighing(model, embedded, true))
        rows.append(row)
    table = pd.DataFrame(rows)
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


def _without_weighing(model: AttentionClassifier, embedded: Tensor, true: Tensor) -> float:
    """The relative error of leaving out that a place's attention changes with it."""
    with torch.no_grad():
        direct = (
            torch.einsum(
                "kt,ko,kow->tw", model.attention(embedded[None])[0], model.head, model.value
            )
            / model.heads
        )
    return float((true - direct)[1:].norm() / true[1:].norm())


def _draw(models: dict[int, AttentionClassifier]) -> Figure:
    """Attention beside the size of the gradient, token by token: they need not go together."""
    ids = torch.tensor(tokenizer()(TEXT)["input_ids"])
    names = tokenizer().convert_ids_to_tokens(ids.tolist())
    figure, axes = panels(len(models), width=3.3, height=3.2)
    for place, (heads, model) in enumerate(models.items()):
        embedded = model.embed(ids[None])[0].detach()
        attention = model.attention(embedded[None])[0].mean(dim=0).detach()[1 : len(ids)]
        size = reduced(closed_gradient(model, embedded), embedded, "l2")[1 : len(ids)]
        axes[place].scatter(attention, size, s=14, color=COLOURS[place])
        for name, x, y in zip(names[1:], attention.tolist(), size.tolist(), strict=True):
            if name in STRENGTH:
                axes[place].annotate(
                    name,
                    (x, y),
                    fontsize=6,
                    xytext=(3, -7 if name in ("rude", "fresh") else 3),
                    textcoords="offset points",
                )
        axes[place].set_title(f"{heads} head{'s' if heads > 1 else ''}", fontsize=9)
        axes[place].set_xlabel("attention, mean over heads")
    axes[0].set_ylabel("L2 norm of the gradient")
    return figure
