"""How much the Yelp experiments compute."""

from __future__ import annotations

from dataclasses import dataclass

from research.paper.mamba import FAMILY as MAMBA
from research.paper.review_models import EMBEDDED, ModelSpec

BERT, DISTILBERT, GPT2 = "BERT type", "DistilBERT type", "GPT-2 type"
SMOLLM2, MAMBA_TYPE = "SmolLM2", "Mamba type"  # in the place of BLOOM-7.1B and Mamba-2.8B
CLASSICAL = (BERT, DISTILBERT, GPT2)


@dataclass(frozen=True)
class Size:
    """How much is computed.

    Attributes:
        models: those of the paper's upper rows; the first is indispensable.
        large: those that stand for the paper's large models.
        texts: reviews that are explained.
        large_texts: of the large models.
        curves: reviews in which AOPC is measured.
        calls: of each explanation at most.
    """

    models: tuple[ModelSpec, ...]
    large: tuple[ModelSpec, ...]
    texts: int
    large_texts: int
    curves: int
    calls: int


# Without kernels of its own, a Mamba learns in time that grows with the square of a text's length.
_SMALL_GPT2 = ModelSpec(
    GPT2,
    family="gpt2",
    layers=2,
    width=64,
    vocabulary=4096,
    texts=2000,
    epochs=4,
    rate=1e-3,
    batch=16,
    limit=256,
)
_SMALL_MAMBA = ModelSpec(
    MAMBA_TYPE,
    family=MAMBA,
    layers=2,
    width=32,
    vocabulary=4096,
    texts=2000,
    epochs=3,
    rate=3e-3,
    batch=16,
    limit=64,
)
_FULL_GPT2 = ModelSpec(
    GPT2, family="gpt2", layers=6, width=256, vocabulary=8192, epochs=10, rate=5e-4, batch=32
)
_FULL_MAMBA = ModelSpec(
    MAMBA_TYPE,
    family=MAMBA,
    layers=4,
    width=128,
    vocabulary=8192,
    epochs=5,
    rate=1e-3,
    batch=32,
    limit=192,
)

SMALL = Size(
    models=(ModelSpec(BERT, init=EMBEDDED, limit=512), _SMALL_GPT2),
    large=(_SMALL_MAMBA,),
    texts=10,
    large_texts=5,
    curves=5,
    calls=1000,
)
FULL = Size(
    models=(
        ModelSpec(BERT, init="minilm", layers=6),
        ModelSpec(DISTILBERT, init="mpnet", layers=6),
        _FULL_GPT2,
    ),
    large=(
        ModelSpec(SMOLLM2, init="smollm2", layers=None, epochs=2, rate=2e-5, batch=16),
        _FULL_MAMBA,
    ),
    texts=500,
    large_texts=50,
    curves=100,
    calls=5000,
)
