"""What a training starts from: a new model, or a pretrained one."""

from __future__ import annotations

from typing import Any

from slalom_xai.training.architecture import new_model, new_tokenizer
from slalom_xai.training.data import Prepared
from slalom_xai.training.options import TrainingOptions
from slalom_xai.training.pretrained import load_start
from slalom_xai.training.settings import LOOP


def starting_model(prepared: Prepared, options: TrainingOptions) -> tuple[Any, Any]:
    """The model before training, and its tokenizer.

    Args:
        prepared: a new tokenizer is made from its training texts.
        options: settled ones.
    """
    if options.init is not None:
        return load_start(
            options.init,
            prepared.classes.names,
            layers=options.layers,
            revision=options.revision,
            trust_remote_code=options.trust_remote_code,
        )
    return _new(prepared, options)


def _new(prepared: Prepared, options: TrainingOptions) -> tuple[Any, Any]:
    """A model with random weights and a tokenizer of the training texts."""
    # ``settled`` has filled these in.
    assert options.max_length is not None
    assert options.family is not None
    assert options.vocabulary is not None
    assert options.layers is not None
    assert options.width is not None
    dropout = LOOP.dropout
    if options.teacher is not None:
        dropout = LOOP.dropout_with_teacher
    texts = prepared.training.texts + (prepared.training.pairs or ())
    tokenizer = new_tokenizer(
        texts,
        vocabulary=options.vocabulary,
        limit=options.max_length,
        family=options.family,
    )
    model = new_model(
        tokenizer,
        family=options.family,
        layers=options.layers,
        width=options.width,
        limit=options.max_length,
        dropout=dropout,
        labels=prepared.classes.names,
    )
    return model, tokenizer
