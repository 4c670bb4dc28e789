"""Other libraries.

Each is handed a function from deletions to log odds that batches by length, so that none is slowed
by our side of it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from research.benchmarks.speed.subjects import Array, Lab, Masks, Predict, Subject

Explain = Callable[[Subject], Predict]
Score = Callable[[Subject, int], Array]  # a text and a number of calls to scores (n,)
CHUNK = 1000  # rows handed over at once where a library lets us choose


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Without the library's prints, bars and warnings."""
    nowhere = io.StringIO()
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        warnings.simplefilter("ignore")
        yield


def additive(scores: Array) -> Predict:
    """One score per token: a deletion loses the scores of what it deletes."""

    def predict(masks: Masks) -> Array:
        predicted: Array = np.asarray(masks, dtype=np.float64) @ scores  # up to a constant
        return predicted

    return predict


def shap_kernel(subject: Subject, calls: int) -> Array:
    """Kernel SHAP; all tokens may have a score, which its default of ten would not allow."""
    import shap

    explainer = shap.KernelExplainer(subject.ask, np.zeros((1, len(subject))), seed=0)
    found = explainer.shap_values(np.ones((1, len(subject))), nsamples=calls, l1_reg=0, silent=True)
    return np.asarray(found, dtype=np.float64).reshape(-1)


def shap_permutation(subject: Subject, calls: int) -> Array:
    """Permutation SHAP."""
    import shap

    masker = shap.maskers.Independent(np.zeros((1, len(subject))), max_samples=1)
    explainer = shap.PermutationExplainer(subject.ask, masker, seed=0)
    found = explainer(np.ones((1, len(subject))), max_evals=calls, silent=True)
    return np.asarray(found.values, dtype=np.float64).reshape(-1)


def shap_partition(subject: Subject, calls: int) -> Array:
    """Partition SHAP with the tree of tokens that SHAP makes for texts."""
    import shap
    from shap.maskers._text import partition_tree

    tree = partition_tree(subject.lab.tokenizer.convert_ids_to_tokens(subject.ids.tolist()), [])
    masker = shap.maskers.Partition(np.zeros((1, len(subject))), clustering=tree)
    explainer = shap.PartitionExplainer(subject.ask, masker)
    found = explainer(np.ones((1, len(subject))), max_evals=calls, batch_size=CHUNK, silent=True)
    return np.asarray(found.values, dtype=np.float64).reshape(-1)


def lime_text(subject: Subject, calls: int) -> Array:
    """LIME for texts; tokens are handed over as words, so that it deletes what the others do."""
    from lime.lime_text import LimeTextExplainer

    def answers(texts: list[str]) -> Array:
        masks = np.zeros((len(texts), len(subject)), dtype=bool)
        for mask, text in zip(masks, texts, strict=True):
            mask[[int(word[1:]) for word in text.split()]] = True
        odds = subject.ask(masks)
        return np.stack([-odds, odds], axis=1)

    explainer = LimeTextExplainer(split_expression=r"\s+", random_state=0)
    text = " ".join(f"u{index}" for index in range(len(subject)))
    found = explainer.explain_instance(
        text, answers, labels=(1,), num_features=len(subject), num_samples=calls
    )
    scores = np.zeros(len(subject))
    for index, score in found.as_map()[1]:
        scores[index] = score
    return scores


def captum_kernel(subject: Subject, calls: int) -> Array:
    """Captum's Kernel SHAP."""
    from captum.attr import KernelShap

    return _captum(KernelShap, subject, calls)


def captum_lime(subject: Subject, calls: int) -> Array:
    """Captum's LIME."""
    from captum.attr import Lime

    return _captum(Lime, subject, calls)


def _captum(kind: Any, subject: Subject, calls: int) -> Array:
    def answers(keep: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(subject.ask(keep.numpy() > 0.5))

    whole = torch.ones(1, len(subject))
    found = kind(answers).attribute(
        whole, baselines=torch.zeros_like(whole), n_samples=calls, perturbations_per_eval=CHUNK
    )
    scores: Array = found.double().numpy().reshape(-1)
    return scores


def interpreto(lab: Lab, name: str, calls: int) -> Explain:
    """LIME or Kernel SHAP of Interpreto: the model as it is, and mask tokens for what goes."""
    import interpreto as library

    kind = library.Lime if name == "interpreto-lime" else library.KernelShap
    with quietly():
        explainer = kind(
            lab.model,
            lab.tokenizer,
            batch_size=64,  # its default of 4 would be slow
            granularity=library.Granularity.TOKEN,
            n_perturbations=calls,
            device=lab.device,
        )

    def explain(subject: Subject) -> Predict:
        found = explainer(subject.text, targets=torch.tensor([[0, 1]]))[0]
        by_class: Array = found.attributions.double().cpu().numpy()  # (2, n)
        return additive(by_class[1] - by_class[0])

    return explain


SCORES: dict[str, Score] = {
    "shap-partition": shap_partition,
    "shap-permutation": shap_permutation,
    "shap-kernel": shap_kernel,
    "lime": lime_text,
    "captum-kernel-shap": captum_kernel,
    "captum-lime": captum_lime,
}
INTERPRETO = ("interpreto-lime", "interpreto-kernel-shap")
PUBLISHED = ("published-eff", "published-fidel")
OTHERS = (*SCORES, *INTERPRETO, *PUBLISHED)


def other(lab: Lab, name: str, calls: int) -> Explain:
    """A method in ``OTHERS`` with so many calls; always with the same random numbers."""
    explain: Explain
    if name in SCORES:
        explain = lambda subject: additive(SCORES[name](subject, calls))  # noqa: E731
    elif name in INTERPRETO:
        explain = interpreto(lab, name, calls)
    else:
        from research.benchmarks.speed.published import published

        explain = published(lab, name, calls)

    def seeded(subject: Subject) -> Predict:
        np.random.seed(0)
        torch.manual_seed(0)
        with quietly():
            return explain(subject)

    return seeded


def missing(name: str) -> str | None:
    """The library that a method needs and that is not installed."""
    needed = [name.split("-")[0]] if name in OTHERS else []
    if name in PUBLISHED:
        needed = ["slalom_explanations", "scipy", "sklearn", "tqdm"]
    return next((library for library in needed if importlib.util.find_spec(library) is None), None)
