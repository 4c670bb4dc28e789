"""Learning from a teacher: its answers to whole and partial texts, and the student's start.

An explained model is asked about shortened texts, so a student must answer those as its teacher
does. It therefore learns the teacher's answers to random parts of each text, too. Three more steps
help:

    stretched             a teacher's probabilities saturate; their log odds are made to grow again
    start_from_teacher    word embeddings begin as the teacher's, on fewer dimensions
    best_scale            one factor on the logits calibrates the probabilities, on validation texts
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.options import DISTILLATION


def with_parts(examples: Examples, parts: int, seed: int) -> Examples:
    """The examples, and behind them partial texts of each.

    Shortened texts are then nothing new to the student.

    Args:
        examples: the whole texts.
        parts: partial texts for each.
        seed: for the choice.
    """
    rng = random.Random(seed)
    texts, pairs, labels = list(examples.texts), list(examples.pairs or ()), list(examples.labels)
    for index, text in enumerate(examples.texts):
        for part in range(parts):
            holes = part % 2 == 1
            texts.append(partial(text, rng, holes=holes))
            if examples.pairs is not None:
                pairs.append(partial(examples.pairs[index], rng, holes=holes))
            labels.append(examples.labels[index])
    if examples.pairs is None:
        return Examples(tuple(texts), None, tuple(labels))
    return Examples(tuple(texts), tuple(pairs), tuple(labels))


def partial(text: str, rng: random.Random, *, holes: bool) -> str:
    """A span of a text, from three words to all of it.

    Args:
        text: the whole text.
        rng: draws the span; its length is uniform in the logarithm.
        holes: some words inside the span are left out, too.
    """
    words = text.split()
    drawn = round(2 ** rng.uniform(DISTILLATION.shortest, DISTILLATION.longest))
    size = max(1, min(len(words), drawn))
    start = rng.randrange(len(words) - size + 1)
    span = words[start : start + size]
    if holes:
        keep = rng.uniform(DISTILLATION.least_kept, 1.0)
        span = [word for word in span if rng.random() < keep] or span[:1]
    return " ".join(span)


def centre(logits: Tensor) -> Tensor:
    """Logits or log probabilities (rows, classes) minus their mean over the classes."""
    return logits - logits.mean(1, keepdim=True)


def undo_saturation(answers: Tensor) -> Tensor:
    """Undoes a saturating output: answers near the bound keep growing with the evidence.

    A row of length l becomes one of length b atanh(l / b), where b is the bound.

    Args:
        answers: centred log probabilities (rows, classes).

    Returns:
        (rows, classes); each row keeps its direction and gets longer.
    """
    lengths = answers.norm(dim=1, keepdim=True)  # (rows, 1)
    bound = DISTILLATION.headroom * lengths.max().clamp(min=1e-6)
    growth = bound * torch.atanh(lengths / bound) / lengths.clamp(min=1e-12)
    return answers * torch.where(lengths > 0, growth, 1.0)


def projected_embeddings(
    tokenizer: Any, teacher_tokenizer: Any, weights: Tensor, width: int
) -> Tensor:
    """The teacher's embeddings of the student's tokens, on their leading principal components.

    Args:
        tokenizer: the student's, with WordPiece tokens.
        teacher_tokenizer: the teacher's, of any kind.
        weights: the teacher's embeddings, (tokens, teacher's width).
        width: the student's.

    Returns:
        (student's tokens, width or the teacher's width, whichever is smaller).
    """
    vocabulary = teacher_tokenizer.get_vocab()
    pieces_alike = any(piece.startswith("##") for piece in vocabulary)
    embeddings = torch.zeros(len(tokenizer), weights.shape[1])  # (tokens, teacher's width)
    for piece, index in tokenizer.get_vocab().items():
        if pieces_alike and piece in vocabulary:
            ids = [vocabulary[piece]]
        else:
            ids = _teacher_ids(teacher_tokenizer, piece, pieces_alike)
        if ids:
            embeddings[index] = weights[ids].mean(0)
        else:
            embeddings[index] = weights.mean(0)
    embeddings = (embeddings - embeddings.mean(0)).double()
    # eigh sorts upwards, and the leading directions are wanted first.
    directions = torch.linalg.eigh(embeddings.T @ embeddings).eigenvectors.flip(1)
    projected: Tensor = embeddings @ directions[:, : min(width, embeddings.shape[1])]
    return (projected / projected.std() * DISTILLATION.embedding_spread).float()


def _teacher_ids(teacher_tokenizer: Any, piece: str, pieces_alike: bool) -> list[int]:
    """The teacher's tokens for a WordPiece token that it does not have itself.

    Args:
        teacher_tokenizer: the teacher's.
        piece: a token of the student; "##" marks that it does not begin a word.
        pieces_alike: the teacher marks pieces in the same way. Other kinds of tokenizer mark the
            start of a word by the space before it.
    """
    spelling = f" {piece}"
    if pieces_alike or piece.startswith("##"):
        spelling = piece.removeprefix("##")
    encoded = teacher_tokenizer(spelling, add_special_tokens=False, verbose=False)
    ids: list[int] = encoded["input_ids"]
    return ids


@torch.no_grad()
def start_from_teacher(model: Any, tokenizer: Any, teacher: Any, teacher_tokenizer: Any) -> None:
    """Sets a new model's word embeddings to the teacher's, as far as they fit."""
    own = model.get_input_embeddings().weight
    theirs = teacher.get_input_embeddings().weight.detach().float().cpu()
    projected = projected_embeddings(tokenizer, teacher_tokenizer, theirs, own.shape[1])
    own[:, : projected.shape[1]] = projected.to(own)


def best_scale(logits: Tensor, labels: Tensor) -> float:
    """The factor (one divided by a temperature) that gives logits the least cross-entropy.

    Args:
        logits: (rows, classes) on texts that were not learnt from.
        labels: (rows,).
    """
    factors: Sequence[float] = torch.logspace(
        DISTILLATION.scale_from,
        DISTILLATION.scale_to,
        DISTILLATION.scale_steps,
        dtype=torch.float64,
    ).tolist()

    def loss(factor: float) -> float:
        return float(cross_entropy(factor * logits.double(), labels))

    return min(factors, key=loss)


@torch.no_grad()
def scale_head(model: Any, factor: float) -> bool:
    """Multiplies the last layer, so that all logits are multiplied.

    Returns:
        False if the model has no such layer.
    """
    heads = []
    for module in model.modules():
        is_layer = isinstance(module, torch.nn.Linear)
        if is_layer and module.out_features == model.config.num_labels:
            heads.append(module)
    if not heads:
        return False
    for parameter in heads[-1].parameters():
        parameter.mul_(factor)
    return True
