"""The methods of the paper's experiments on reviews: as its authors ran them, and on one scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from slalom_xai.estimators import Estimator, Gradient, IntegratedGradients
from slalom_xai.experiments.review_models import Request, ReviewModel, explained
from slalom_xai.explainer import Explainer
from slalom_xai.metrics import Case, asker
from slalom_xai.surrogates.scores import DEFAULT_SCORE

Explained = Literal["log odds", "probability", "logit"]

VALUE, IMPORTANCE, LINEARIZED = "value", "importance", "linearized"


@dataclass(frozen=True)
class Recipe:
    """A method and how it is run.

    Attributes:
        name: as tables call it.
        method: a name in ``methods()``, or an instance with settings of its own.
        scores: those that rank units, one after another.
        output: what is explained; a logit is that of the predicted class.
        removal: what leaving out a unit means to the method.
    """

    name: str
    method: str | Estimator
    scores: tuple[str, ...] = (DEFAULT_SCORE,)
    output: Explained = "log odds"
    removal: str = "delete"

    @property
    def one_score(self) -> bool:
        """Whether its score needs no name."""
        return len(self.scores) == 1


OURS = Recipe("slalom", "slalom", (DEFAULT_SCORE, VALUE, IMPORTANCE, LINEARIZED))
EFF = Recipe("slalom-eff", "slalom-eff", (VALUE, IMPORTANCE, LINEARIZED))
FIDEL = Recipe("slalom-fidel", "slalom-fidel", (VALUE, LINEARIZED))
LIME = Recipe("lime", "lime")
SHAP = Recipe("kernel-shap", "kernel-shap")
LRP = Recipe("attn-lrp", "attn-lrp")
# As the paper's authors ran them.
LIME_PRINTED = Recipe("lime, probability", "lime", output="probability")
SHAP_PRINTED = Recipe("kernel-shap, [UNK]", "kernel-shap", removal="unk")
LRP_PRINTED = Recipe("attn-lrp, logit", "attn-lrp", output="logit")
IG_PRINTED = Recipe("integrated-gradients, logit", IntegratedGradients(steps=30), output="logit")
GRADIENT_PRINTED = Recipe("gradient, logit", Gradient(reduction="mean"), output="logit")

SETUP = (
    "Methods explain log odds and delete tokens, except where their name says what else the "
    "paper's authors did: LIME explained the probability, LRP and the gradients the predicted "
    "class's logit, and Kernel SHAP replaced tokens by [UNK]. The printed numbers stand beside "
    "those. Every method is judged by deletions."
)


def case_of(recipe: Recipe, model: ReviewModel, text: str, request: Request) -> Case:
    """A text explained as a recipe says, and judged by the model's log odds.

    Args:
        recipe: the method.
        model: what is explained.
        text: if it is too long, its beginning is explained.
        request: calls and seed; what the recipe says itself is put in.
    """
    asked = model.text_model
    if recipe.output == "probability":
        asked = model.with_probability
    elif recipe.output == "logit":
        asked = model.with_logits  # whose largest output is explained: the predicted class's
    own = replace(request, removal=recipe.removal)
    case = explained(asked, text, recipe.method, own, score=recipe.scores[0])
    # Another scale, and deletions whatever the method replaced: only the order is judged.
    judge = Explainer(model.text_model, truncation=True, show_progress=False)
    deleting = replace(case.explanation, removal="delete")
    return replace(case, ask=asker(judge, deleting, same_scale=False))
