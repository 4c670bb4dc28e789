"""Models to explain: the embedded one, tiny random ones, and functions that behave badly."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import transformers
from tiny import SIZE, tiny
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from tokenizers.processors import TemplateProcessing

from fuzz.families import FAMILIES, Game
from fuzz.texts import WORDS

ENCODERS = ("bert", "roberta", "distilbert", "xlnet", "t5")
DECODERS = ("gpt2", "llama")  # the first without a pad token
EMBEDDED_UNKNOWN = 1
Finish = Callable[[np.ndarray], Any]
PAIRED = ("bert", "roberta", "xlnet")


@dataclass(frozen=True)
class Subject:
    """A model and how to hand it over.

    Attributes:
        name: for people.
        model: as ``Explainer`` takes it.
        tokenizer: likewise.
        output: likewise.
        pairs: whether it takes pairs of texts.
        opens: whether methods that look inside apply.
        steady: whether it gives the same answer twice.
        rowwise: whether an answer never depends on the rest of its batch, not even by rounding.
    """

    name: str
    model: Any = None
    tokenizer: Any = None
    output: str = "auto"
    pairs: bool = False
    opens: bool = False
    steady: bool = True
    rowwise: bool = False

    def mark(self, removal: str) -> str | None:
        """What stands for a removed piece: "" for nothing, None where there is no such token."""
        if removal in ("auto", "hide", "delete"):
            return ""
        if self.tokenizer is None:
            return f"[{removal.upper()}]"
        return getattr(self.tokenizer, f"{removal}_token", None)

    @property
    def unknown(self) -> int | None:
        """The id of what the tokenizer does not know."""
        if self.name == "embedded":
            return EMBEDDED_UNKNOWN
        return getattr(self.tokenizer, "unk_token_id", None)


def subject(rng: np.random.Generator) -> Subject:
    """Draws a model."""
    maker = _MAKERS[int(rng.choice(len(_MAKERS), p=_SHARES))]
    return maker(rng)


def _embedded(_: np.random.Generator) -> Subject:
    return Subject("embedded", opens=True)


def _encoder(rng: np.random.Generator) -> Subject:
    name = str(rng.choice(ENCODERS))
    return Subject(name, *tiny(name), opens=True, pairs=name in PAIRED)


def _decoder(rng: np.random.Generator) -> Subject:
    name = str(rng.choice(DECODERS))
    return Subject(name, *tiny(name), opens=True)


def _by_words(_: np.random.Generator) -> Subject:
    """Whole words after NFKC, which makes many characters of one; all other words are unknown."""
    return Subject("words", *_word_level(), opens=True, pairs=True)


@functools.cache
def _word_level() -> tuple[Any, Any]:
    special = {name: f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    vocabulary = [*special.values(), *sorted(set(WORDS)), "الله", "وسلم", "kg", "1", "!", "."]
    places = {word: place for place, word in enumerate(vocabulary)}
    backend = Tokenizer(models.WordLevel(places, unk_token="[UNK]"))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    single, pair = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    backend.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=ends)
    names = {f"{name}_token": token for name, token in special.items()}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, **names)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=128, **SIZE)
    model = transformers.BertForSequenceClassification(config).eval()
    with torch.no_grad():
        model.classifier.weight.mul_(20)
    return model, words


def _on_logits(rng: np.random.Generator) -> Subject:
    """One logit, or one for each of several classes."""
    name, seed = str(rng.choice(list(FAMILIES))), int(rng.integers(1000))
    classes = int(rng.choice([1, 2, 2, 3, 5]))
    games = [FAMILIES[name](seed + 10 * index) for index in range(classes)]
    return _function(f"{name} logits {seed} x{classes}", games, lambda logits: logits, "logits")


def _on_probabilities(rng: np.random.Generator) -> Subject:
    name, seed = str(rng.choice(list(FAMILIES))), int(rng.integers(1000))
    classes = int(rng.choice([2, 2, 3, 4]))
    games = [FAMILIES[name](seed + 10 * index) for index in range(classes)]
    return _function(f"{name} probabilities {seed} x{classes}", games, _softmax, "probabilities")


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(np.clip(logits, -30, 30) - np.clip(logits, -30, 30).max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


def _function(name: str, games: list[Game], finish: Finish, output: str, **marks: bool) -> Subject:
    def answer(texts: list[str]) -> Any:
        logits = np.array([[game(text.split()) for game in games] for text in texts])
        return finish(logits)

    answer.__qualname__ = "answer"
    return Subject(name, answer, output=output, **{"rowwise": True, **marks})


def _nasty(rng: np.random.Generator) -> Subject:
    """Answers that a model should not give, or that leave nothing to explain."""
    way = str(
        rng.choice(
            [
                "constant",
                "huge",
                "tiny",
                "noise",
                "nan",
                "infinite",
                "certain",
                "negative",
                "one word",
            ]
        )
    )
    play = FAMILIES["slalom"](int(rng.integers(100)))
    scale = 10.0 ** int(rng.choice([6, 30, 100, 150, 160, 200, 300]))
    output = "probabilities" if way in ("certain", "negative") else "logits"
    finish: dict[str, Finish] = {
        "constant": lambda logits: np.full_like(logits, 0.7),
        "huge": lambda logits: logits * scale,
        "tiny": lambda logits: logits / scale,
        "noise": lambda logits: logits + np.random.default_rng().normal(size=logits.shape),
        "nan": lambda logits: np.where(np.abs(logits[:, :1]) < 0.2, np.nan, logits),
        "infinite": lambda logits: np.where(np.abs(logits[:, :1]) < 0.2, np.inf, logits),
        "certain": lambda logits: (logits > 0.5).astype(float) @ [[0.0, 1.0]] + [[0.0, 0.0]],
        "negative": lambda logits: logits,
        "one word": lambda logits: np.round(logits),
    }
    return _function(f"{way} {scale:g}", [play], finish[way], output, steady=way != "noise")


def _sklearn(_: np.random.Generator) -> Subject:
    return Subject("sklearn", _fitted(), rowwise=True)


@functools.cache
def _fitted() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 8)) for _ in range(60)]
    labels = ["good" if "good" in text or "warm" in text else "bad" for text in texts]
    return make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, labels)


_MAKERS: tuple[Callable[[np.random.Generator], Subject], ...] = (
    _embedded, _encoder, _decoder, _by_words, _on_logits, _on_probabilities, _nasty, _sklearn,
)  # fmt: skip
_SHARES = (0.14, 0.22, 0.13, 0.08, 0.2, 0.1, 0.1, 0.03)
