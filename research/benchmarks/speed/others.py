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

from research.benchmarks.speed.methods import Asked, Method, Ours, Predict
from research.benchmarks.speed.subjects import Array, Lab, Masks, Subject

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


class Additive(Method):
    """A library that gives one score per unit; a deletion loses the scores of what it deletes.

    Args:
        name: for tables.
        score: runs it.
        calls: rows it may ask.
    """

    def __init__(self, name: str, score: Score, calls: int) -> None:
        self.name = name
        self._score = score
        self._calls = calls

    def explain(self, subject: Subject) -> Predict:
        """Explains a text."""
        np.random.seed(0)
        torch.manual_seed(0)
        with quietly():
            scores = self._score(subject, self._calls)

        def predict(masks: Masks) -> Array:
            predicted: Array = np.asarray(masks, dtype=np.float64) @ scores  # up to a constant
            return predicted

        return predict

    def asked(self, subject: Subject) -> Asked:
        """What it asks, from an extra run."""
        subject.heard = []
        try:
            self.explain(subject)
            return Asked(len(subject.heard), list(dict.fromkeys(subject.heard)))
        finally:
            subject.heard = None


def shap_kernel(subject: Subject, calls: int) -> Array:
    """Kernel SHAP; all units may have a score, which its default of ten would not allow."""
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

    words = subject.lab.tokenizer.convert_ids_to_tokens(subject.ids.tolist())
    masker = shap.maskers.Partition(
        np.zeros((1, len(subject))), clustering=partition_tree(words, [])
    )
    explainer = shap.PartitionExplainer(subject.ask, masker)
    found = explainer(np.ones((1, len(subject))), max_evals=calls, batch_size=CHUNK, silent=True)
    return np.asarray(found.values, dtype=np.float64).reshape(-1)


def lime_text(subject: Subject, calls: int) -> Array:
    """LIME for texts; units are handed over as words, so that it deletes what the others delete."""
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


SCORES: dict[str, tuple[str, Score]] = {
    "shap-partition": ("shap", shap_partition),
    "shap-permutation": ("shap", shap_permutation),
    "shap-kernel": ("shap", shap_kernel),
    "lime": ("lime", lime_text),
    "captum-kernel-shap": ("captum", captum_kernel),
    "captum-lime": ("captum", captum_lime),
}
LIBRARIES = {name: library for name, (library, _) in SCORES.items()} | {
    "interpreto-lime": "interpreto",
    "interpreto-kernel-shap": "interpreto",
    "published-eff": "slalom_explanations",
    "published-fidel": "slalom_explanations",
}


def build(lab: Lab, name: str, calls: int) -> Method:
    """A method by its name: one of ours, or one in ``LIBRARIES``."""
    if name in SCORES:
        return Additive(name, SCORES[name][1], calls)
    if name.startswith("published"):
        from research.benchmarks.speed.published import Published

        return Published(lab, name, calls)
    if name.startswith("interpreto"):
        from research.benchmarks.speed.interpreted import Interpreted

        return Interpreted(lab, name, calls)
    return Ours(lab, name, calls)


def missing(name: str) -> str | None:
    """The library that a method needs and that is not here."""
    if name not in LIBRARIES:
        return None
    needed = [LIBRARIES[name]]
    if name.startswith("published"):
        needed += ["scipy", "sklearn", "tqdm"]
    for library in needed:
        if importlib.util.find_spec(library) is None:
            return library
    return None
