"""How much the IMDB experiments compute, and the review that the paper prints."""

from __future__ import annotations

from dataclasses import dataclass

from research.paper.review_models import ModelSpec

# Printed in Fig. 5.
REVIEW = (
    "This movie was so frustrating. Everything seemed energetic and I was totally prepared to have "
    "a good time. I at least thought I'd be able to stand it. But, I was wrong. First, the weird "
    'looping? It was like watching "America\'s Funniest Home Videos". The damn parents. I hated '
    "them so much. The stereo-typical Latino family? I need to speak with the person responsible "
    "for this. We need to have a talk. That little girl who was always hanging on someone? I just "
    "hated her and had to mention it. Now, the final scene transcends, I must say. It's so "
    "gloriously bad and full of badness that it is a movie of its own. What crappy dancing. "
    "Horrible and beautiful at once."
)


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        models: one after another; the first is indispensable.
        texts: reviews that are explained.
        calls: of each explanation at most.
        words: of the explained reviews at most; None: any number.
        rows: deletions of each number that errors are measured on.
        tested: reviews that accuracies are measured on.
        corpus: reviews that Naive-Bayes weights are taken from.
        samples: calls of slalom-eff in Table 14, one after another.
    """

    models: tuple[ModelSpec, ...]
    texts: int
    calls: int
    words: int | None
    rows: int
    tested: int
    corpus: int
    samples: tuple[int, ...]


SMALL = Size(
    models=(
        ModelSpec(  # at the paper's rate, 5e-5, so few reviews teach it nothing
            "BERT type",
            init="minilm",
            texts=800,
            validation=100,
            epochs=3,
            rate=3e-4,
            batch=16,
            limit=128,
        ),
        ModelSpec(
            "GPT-2 type",
            family="gpt2",
            width=128,
            vocabulary=8192,
            texts=1000,
            validation=100,
            epochs=6,
            rate=1e-3,
            batch=16,
            limit=128,
        ),
    ),
    texts=5,
    calls=600,
    words=60,
    rows=30,
    tested=200,
    corpus=5000,
    samples=(500, 1000, 2000),
)
FULL = Size(
    models=(
        ModelSpec("BERT type", init="minilm", layers=2),
        ModelSpec("DistilBERT type", init="mpnet", layers=2),
        ModelSpec(
            "GPT-2 type",
            family="gpt2",
            width=256,
            vocabulary=16384,
            epochs=10,
            rate=5e-4,
            batch=32,
        ),
    ),
    texts=100,
    calls=5000,
    words=None,
    rows=100,
    tested=4000,
    corpus=5000,
    samples=(500, 1000, 2000, 5000, 10_000),
)
