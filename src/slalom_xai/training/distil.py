"""Learning from a teacher: its answers to whole and partial texts, and what the student starts from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from slalom_xai.training.data import Examples


def with_parts(examples: Examples, parts: int, seed: int) -> Examples:
    """The examples, and behind them partial texts of each, so that shortened texts are nothing new to the student.

    Args:
        examples: the whole texts.
        parts: partial texts for each.
        seed: for the choice.
    """
    rng = random.Random(seed)
    texts, pairs, labels = list(examples.texts), list(examples.pairs or ()), list(examples.labels)
    for place, text in enumerate(examples.texts):
        for index in range(parts):
            texts.append(partial(text, rng, holes=index % 2 == 1))
            if examples.pairs is not None:
                pairs.append(partial(examples.pairs[place], rng, holes=index % 2 == 1))
            labels.append(examples.labels[place])
    return Examples(
        tuple(texts), tuple(pairs) if examples.pairs is not None else None, tuple(labels)
    )


def partial(text: str, rng: random.Random, *, holes: bool) -> str:
    """A span of a text, from three words to all of it; with ``holes`` some of its words are missing, too."""
    words = text.split()
    size = max(1, min(len(words), round(2 ** rng.uniform(1.5, 8.5))))
    start = rng.randrange(len(words) - size + 1)
    span = words[start : start + size]
    if holes:
        keep = rng.uniform(0.1, 1.0)
        span = [word for word in span if rng.random() < keep] or span[:1]
    return " ".join(span)


def centred(logits: Tensor) -> Tensor:
    """Logits or log probabilities (rows, classes) minus their mean over the classes."""
    return logits - logits.mean(1, keepdim=True)


def stretched(answers: Tensor) -> Tensor:
    """Undoes a saturating output: answers near the bound keep growing with the evidence.

    Args:
        answers: centred log probabilities (rows, classes); each row keeps its direction and gets longer.
    """
    lengths = answers.norm(dim=1, keepdim=True)
    bound = 1.02 * lengths.max().clamp(min=1e-6)
    return answers * torch.where(
        lengths > 0, bound * torch.atanh(lengths / bound) / lengths.clamp(min=1e-12), 1.0
    )


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
    rows = torch.zeros(len(tokenizer), weights.shape[1])
    for piece, index in tokenizer.get_vocab().items():
        if pieces_alike and piece in vocabulary:
            ids = [vocabulary[piece]]
        else:  # other kinds of tokenizer mark the start of a word by the space before it
            spelling = (
                piece.removeprefix("##") if pieces_alike or piece.startswith("##") else f" {piece}"
            )
            ids = teacher_tokenizer(spelling, add_special_tokens=False, verbose=False)["input_ids"]
        rows[index] = weights[ids].mean(0) if ids else weights.mean(0)
    rows = (rows - rows.mean(0)).double()
    directions = torch.linalg.eigh(rows.T @ rows).eigenvectors.flip(1)  # eigh sorts upwards
    found: Tensor = rows @ directions[:, : min(width, rows.shape[1])]
    return (found / found.std() * 0.05).float()


@torch.no_grad()
def start_from_teacher(model: Any, tokenizer: Any, teacher: Any, teacher_tokenizer: Any) -> None:
    """Sets a new model's word embeddings to the teacher's, as far as they fit."""
    own = model.get_input_embeddings().weight
    theirs = teacher.get_input_embeddings().weight.detach().float().cpu()
    found = projected_embeddings(tokenizer, teacher_tokenizer, theirs, own.shape[1])
    own[:, : found.shape[1]] = found.to(own)


def best_scale(logits: Tensor, labels: Tensor) -> float:
    """The factor (one divided by a temperature) that gives logits the least cross-entropy.

    Args:
        logits: (rows, classes) on texts that were not learnt from.
        labels: (rows,).
    """
    factors: Sequence[float] = torch.logspace(-2, 1, 601, dtype=torch.float64).tolist()
    return min(factors, key=lambda factor: float(cross_entropy(factor * logits.double(), labels)))


@torch.no_grad()
def scale_head(model: Any, factor: float) -> bool:
    """Multiplies the last layer, so that all logits are multiplied; False if the model has no such layer."""
    heads = [
        module
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.out_features == model.config.num_labels
    ]
    if not heads:
        return False
    for parameter in heads[-1].parameters():
        parameter.mul_(factor)
    return True
