"""``explain``: one text in one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from slalom_xai.explainer.explainer import Explainer
from slalom_xai.explainer.inputs import CacheOption
from slalom_xai.explanation import Explanation
from slalom_xai.methods import Estimator
from slalom_xai.models import TextModel


def explain(
    text: str,
    model: str | Callable[[list[str]], Any] | TextModel | Any | None = None,
    tokenizer: Any | None = None,
    *,
    text_pair: str | None = None,
    method: str | Estimator = "slalom",
    budget: int | None = None,
    granularity: str = "word",
    target: str | int | None = None,
    removal: str = "auto",
    output: str = "auto",
    truncation: bool = False,
    random_state: int = 0,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    batch_tokens: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    show_progress: bool | None = None,
    labels: Sequence[str] | None = None,
    on_round: Callable[[Explanation], None] | None = None,
    cache: CacheOption = None,
) -> Explanation:
    """Explains one text; the options are those of ``Explainer``, which is faster for many texts.

    Example:
        >>> from slalom_xai import explain
        >>> explain("A warm, funny film.").trust  # doctest: +SKIP
    """
    explainer = Explainer(
        model,
        tokenizer,
        method=method,
        budget=budget,
        granularity=granularity,
        target=target,
        removal=removal,
        output=output,
        truncation=truncation,
        random_state=random_state,
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        revision=revision,
        trust_remote_code=trust_remote_code,
        show_progress=show_progress,
        labels=labels,
        on_round=on_round,
        cache=cache,
    )
    return explainer(text, text_pair)
