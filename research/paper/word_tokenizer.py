"""A tokenizer of whole words, for texts of a made-up language and for nets of a given size."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers

from slalom_xai.data.training.start import SPECIAL_TOKENS, model_inputs, put_frame


def word_tokenizer(
    words: Sequence[str], *, limit: int, family: str, framed: bool, unknown: str | None = None
) -> Any:
    """A tokenizer of whole words between spaces, for texts of a made-up language.

    Args:
        words: all words of the language.
        limit: tokens the model reads.
        family: bert also gets the segments of pairs.
        framed: whether [CLS] and [SEP] stand around each text.
        unknown: the word that stands for unknown ones; None: [UNK].
    """
    special = SPECIAL_TOKENS | {"unk_token": unknown or SPECIAL_TOKENS["unk_token"]}
    vocabulary = {name: index for index, name in enumerate([*SPECIAL_TOKENS.values(), *words])}
    backend: Any = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk_token"]))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if framed:
        put_frame(backend)
    library: Any = import_module("transformers")
    return library.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=limit,
        model_input_names=model_inputs(family),
        **special,
    )
