"""A Mamba that classifies reviews: the paper's example of a large model without attention.

The transformers library has no Mamba with a classification head, so ``slalom train`` cannot make
one. It learns by the same loop.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from research.paper.review_models import LABELS, ModelSpec, ReviewModel, label_of
from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.encoding import Reader
from slalom_xai.data.training.loop import Course, Lesson, fit
from slalom_xai.data.training.options import DEFAULTS, LOOP
from slalom_xai.data.training.start import name_classes, new_tokenizer
from slalom_xai.models import TextModel
from slalom_xai.models.hub import hide_loading_messages, load_tokenizer
from slalom_xai.models.load import choose_device
from slalom_xai.models.torch_modules import ModuleModel
from slalom_xai.system.files import replace_file

FAMILY = "mamba"  # of a ``ModelSpec``
_WEIGHTS = "weights.pt"  # written last: a folder with it is whole


class MambaClassifier(torch.nn.Module):
    """A Mamba and a linear head that reads the mean over all tokens.

    A head that reads the last token's state alone learns little from a few thousand reviews.

    Args:
        tokenizer: of the model, with a padding token.
        layers: how many.
        width: numbers per token.
        labels: the names of the classes.
    """

    def __init__(
        self, tokenizer: Any, *, layers: int, width: int, labels: tuple[str, ...] = LABELS
    ) -> None:
        super().__init__()
        library: Any = import_module("transformers")
        self.config = library.MambaConfig(
            vocab_size=len(tokenizer),
            hidden_size=width,
            num_hidden_layers=layers,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=tokenizer.cls_token_id,
            eos_token_id=tokenizer.sep_token_id,
            use_cache=False,
        )
        name_classes(self.config, labels)
        self.backbone = library.MambaModel(self.config)
        self.head = torch.nn.Linear(width, len(labels))
        with (
            hide_loading_messages(),
            torch.no_grad(),
        ):  # it tells once, when first asked, that it could be faster
            self.backbone(input_ids=torch.zeros(1, 1, dtype=torch.long))

    @property
    def base_model(self) -> torch.nn.Module:
        """The part below the head."""
        backbone: torch.nn.Module = self.backbone
        return backbone

    def get_input_embeddings(self) -> torch.nn.Module:
        """The table of the tokens' embeddings."""
        table: torch.nn.Module = self.backbone.get_input_embeddings()
        return table

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> SimpleNamespace:
        """Ids and a mask (m, n) to ``logits`` (m, classes)."""
        if attention_mask is None:
            attention_mask = torch.ones_like(input_ids)
        found = self.backbone(input_ids=input_ids, attention_mask=attention_mask)
        hidden = found.last_hidden_state  # (m, n, width)
        weights = attention_mask[:, :, None].to(hidden.dtype)
        mean = (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)  # (m, width)
        return SimpleNamespace(logits=self.head(mean))


class MambaReviewModel(ReviewModel):
    """A trained Mamba, which is a torch module to the package."""

    @cached_property
    def text_model(self) -> TextModel:
        """What is explained: its log odds."""
        return ModuleModel(self.network, self.tokenizer)


def mamba_model(
    spec: ModelSpec, learnt: Examples, validation: Examples, place: Path, seed: int
) -> MambaReviewModel:
    """The Mamba in a folder, trained if it is not there.

    Args:
        spec: what it is; layers, width and vocabulary are needed.
        learnt: reviews it learns from.
        validation: others, which pick the epoch.
        place: its folder.
        seed: of the training.
    """
    assert spec.layers is not None
    assert spec.width is not None
    assert spec.vocabulary is not None
    device = choose_device(None)
    if not (place / _WEIGHTS).is_file():
        tokenizer = new_tokenizer(
            learnt.texts, vocabulary=spec.vocabulary, limit=spec.limit, family=FAMILY
        )
        gpus = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices=gpus):
            torch.manual_seed(seed)
            model = MambaClassifier(tokenizer, layers=spec.layers, width=spec.width).to(device)
            _teach(model, tokenizer, spec, (learnt, validation), seed)
        tokenizer.save_pretrained(place)
        with replace_file(place / _WEIGHTS) as draft:
            torch.save(model.state_dict(), draft)
    tokenizer = load_tokenizer(place)
    tokenizer.model_max_length = spec.limit
    model = MambaClassifier(tokenizer, layers=spec.layers, width=spec.width)
    model.load_state_dict(torch.load(place / _WEIGHTS, map_location="cpu", weights_only=True))
    return MambaReviewModel(spec, model.to(device).eval(), tokenizer)


def _teach(
    model: MambaClassifier,
    tokenizer: Any,
    spec: ModelSpec,
    examples: tuple[Examples, Examples],
    seed: int,
) -> None:
    """Trains as ``slalom train`` does from scratch."""
    reader = Reader(model, tokenizer, spec.limit)
    lessons = []
    for part in examples:
        encoded, _ = reader.read(part, choose_device(None))
        classes = [LABELS.index(label_of(label)) for label in part.labels]
        lessons.append(Lesson(encoded, torch.tensor(classes)))
    course = Course(
        epochs=spec.epochs,
        rate=spec.rate,
        rows=spec.batch,
        tokens=LOOP.tokens_from_scratch,
        decay=LOOP.decay,
        holes=LOOP.holes,
        patience=DEFAULTS.patience,
        seed=seed,
    )
    fit(model, lessons[0], lessons[1], course, tell=lambda line: None)
