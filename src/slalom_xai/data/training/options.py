"""What can be set, and which settings go together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, StrictInt

from slalom_xai.errors import InputError, check_seed, one_of
from slalom_xai.options import OptionSet

# Every number that a training is tuned by, with its unit and what it trades off.


@dataclass(frozen=True)
class Size:
    """A preset for a model from scratch.

    Attributes:
        layers: layers of the transformer.
        width: numbers per token.
        vocabulary: tokens of the tokenizer that is made from the texts.
        rate: largest learning rate; wider models diverge sooner and take less.
    """

    layers: int
    width: int
    vocabulary: int
    rate: float


SIZES = {
    "tiny": Size(2, 128, 8192, 1e-3),
    "small": Size(4, 256, 16384, 5e-4),
    "base": Size(6, 512, 32768, 3e-4),
}


@dataclass(frozen=True)
class Defaults:
    """What holds where an option is not given.

    Attributes:
        size: preset from scratch, a key of ``SIZES``; tiny trains on a CPU in minutes.
        family: architecture from scratch.
        max_length: tokens that a model from scratch reads; costs grow with its square.
        holdout: share of each class kept for validation: more picks the epoch better and leaves
            fewer texts to learn from.
        parts: partial texts per text that a teacher judges: more make the student better on
            shortened texts, and each costs a call of the teacher.
        patience: epochs without a better validation accuracy before training stops.
        epochs_from_scratch: passes over the texts; patience ends most trainings sooner.
        epochs_with_teacher: fewer, because each pass has the partial texts, too.
        epochs_fine_tuning: fewer still, because a pretrained model soon learns texts by heart.
        rate_fine_tuning: largest learning rate; more destroys what the model has learnt before.
    """

    size: str = "tiny"
    family: str = "bert"
    max_length: int = 512
    holdout: float = 0.1
    parts: int = 4
    patience: int = 3
    epochs_from_scratch: int = 10
    epochs_with_teacher: int = 6
    epochs_fine_tuning: int = 3
    rate_fine_tuning: float = 5e-5


@dataclass(frozen=True)
class LoopSettings:
    """How a model is trained.

    Attributes:
        tokens_from_scratch: padded tokens in a batch at most; these models are small.
        tokens_fine_tuning: the same for pretrained ones, whose gradients need more memory.
        decay: weight decay of AdamW, per unit of the learning rate.
        dropout: share of a new model's activations left out; keeps it from learning texts by heart.
        dropout_with_teacher: less, because a teacher's answers say more than labels do.
        holes: mean share of a text's tokens left out each time a new model reads it, without a
            teacher. Labels alone teach a new model little; reading only parts of each text keeps it
            from learning them by heart.
        most_rows: texts in a batch at most.
        least_rows: texts in a batch at least: fewer give steps that are mostly noise.
        steps_per_epoch: small tables take small batches to have about this many steps in an epoch.
        warm_up: the learning rate rises during one in so many of the steps.
        gradient_norm: longer gradients are shortened to this, so that one odd batch does no harm.
        check_every: batches between two looks at whether the loss is finite; each look makes a GPU
            wait.
    """

    tokens_from_scratch: int = 32768
    tokens_fine_tuning: int = 16384
    decay: float = 0.01
    dropout: float = 0.2
    dropout_with_teacher: float = 0.1
    holes: float = 0.4
    most_rows: int = 256
    least_rows: int = 16
    steps_per_epoch: int = 200
    warm_up: int = 10
    gradient_norm: float = 1.0
    check_every: int = 16


@dataclass(frozen=True)
class DistillationSettings:
    """How a student learns from a teacher.

    Attributes:
        shortest: least length of a partial text, as a power of two: about three words.
        longest: greatest length, as a power of two: about 360 words.
        least_kept: a partial text with holes keeps at least this share of its words.
        headroom: the bound of the teacher's answers, in units of the longest answer seen: nearer to
            1 stretches the surest answers more, and makes them noisier.
        embedding_spread: standard deviation of the embeddings that a student starts with: more
            makes the teacher's directions harder to unlearn.
        scale_from: least factor that calibration tries, as a power of ten.
        scale_to: greatest factor, as a power of ten.
        scale_steps: how many factors it tries, evenly spaced in the logarithm: 1.2% apart.
    """

    shortest: float = 1.5
    longest: float = 8.5
    least_kept: float = 0.1
    headroom: float = 1.02
    embedding_spread: float = 0.05
    scale_from: float = -2
    scale_to: float = 1
    scale_steps: int = 601


DEFAULTS = Defaults()
LOOP = LoopSettings()
DISTILLATION = DistillationSettings()


# What can be set, and which settings go together.


FAMILIES = ("bert", "distilbert", "gpt2")

_LEAST = {
    "layers": 1,
    "width": 8,
    "vocabulary": 64,
    "parts": 0,
    "epochs": 1,
    "batch": 1,
    "patience": 1,
    "max_length": 8,
}


_Source = Annotated[str | Path, BeforeValidator(str)]  # a folder may be given as a path


class TrainingOptions(OptionSet):
    """Everything ``slalom train`` can be told apart from the table and the folder."""

    text: str = Field(default="text", description="Column of the texts.")
    label: str = Field(
        default="label", description="Column of the classes: names or whole numbers."
    )
    pair: str | None = Field(
        default=None, description="Column of the second texts, for a model of pairs."
    )
    labels: tuple[str, ...] | None = Field(
        default=None,
        description="Names for numbered classes, or the order of named ones, such as bad,good.",
    )
    validation: Path | None = Field(
        default=None,
        description="Table to choose the best epoch on. Default: a part of the training table.",
    )
    holdout: float | None = Field(
        default=None, description="Share of each class kept for validation. Default: 0.1."
    )
    test: Path | None = Field(
        default=None, description="Table to test the saved model on, once, at the end."
    )
    init: _Source | None = Field(
        default=None,
        description="Folder or hub id of the model to start from. Default: from scratch.",
    )
    revision: str | None = Field(default=None, description="Branch, tag or commit of --init.")
    trust_remote_code: bool = Field(default=False, description="Let a hub model run its own code.")
    size: str | None = Field(
        default=None,
        description="From scratch: tiny (2 layers × 128), small (4 × 256) or base (6 × 512). "
        "Default: tiny.",
    )
    family: str | None = Field(
        default=None,
        description="From scratch: bert or distilbert (encoders), or gpt2 (a decoder). "
        "Default: bert.",
    )
    layers: int | None = Field(
        default=None,
        description="Number of layers. With --init: keep only this many of the first ones. "
        "Default: by --size, or all.",
    )
    width: int | None = Field(
        default=None, description="From scratch: size of a token's vector. Default: by --size."
    )
    vocabulary: int | None = Field(
        default=None, description="From scratch: size of the vocabulary. Default: by --size."
    )
    teacher: _Source | None = Field(
        default=None,
        description="Folder or hub id of a classifier to learn from. It must have the same "
        "classes.",
    )
    parts: int | None = Field(
        default=None,
        description="How many partial texts the teacher judges for each text. Default: 4.",
    )
    epochs: int | None = Field(
        default=None,
        description="Passes over the texts. Default: 3 to fine-tune, 6 with a teacher, 10 "
        "from scratch.",
    )
    rate: float | None = Field(
        default=None,
        description="Largest learning rate. Default: 5e-5 to fine-tune, by --size from scratch.",
    )
    batch: int | None = Field(
        default=None, description="Most texts in one batch. Default: by the number of texts."
    )
    patience: int | None = Field(
        default=None,
        description="Stop after this many epochs without a better validation accuracy. Default: 3.",
    )
    max_length: int | None = Field(
        default=None,
        description="Most tokens to read of each text. Default: as many as the model reads, "
        "at most 512.",
    )
    seed: StrictInt = Field(
        default=0, description="The same seed gives the same model on the same machine."
    )
    device: str | None = Field(
        default=None,
        description="Where to train, such as cpu or cuda. Default: a GPU if there is one.",
    )
    half: bool = Field(
        default=False, description="Store the weights as float16, in half the space."
    )
    overwrite: bool = Field(
        default=False, description="Replace the model of an earlier training in the folder."
    )

    def resolve(self) -> TrainingOptions:
        """The options with every default that depends on others filled in.

        Raises:
            InputError: a value out of range, or two options that exclude each other.
        """
        self._check_ranges()
        self._check_company()
        filled = self.replace(
            holdout=self._resolve_holdout(),
            parts=self._resolve_parts(),
            patience=self.patience or DEFAULTS.patience,
            epochs=self.epochs or self._default_epochs(),
        )
        if self.init is not None:
            return filled.replace(rate=self.rate or DEFAULTS.rate_fine_tuning)
        name = self.size or DEFAULTS.size
        size = SIZES[name]
        return filled.replace(
            size=name,
            family=self.family or DEFAULTS.family,
            layers=self.layers or size.layers,
            width=self.width or size.width,
            vocabulary=self.vocabulary or size.vocabulary,
            rate=self.rate or size.rate,
            max_length=self.max_length or DEFAULTS.max_length,
        )

    def _resolve_holdout(self) -> float | None:
        """The share kept for validation; None where another table validates."""
        if self.validation is not None:
            return None
        if self.holdout is None:
            return DEFAULTS.holdout
        return self.holdout

    def _resolve_parts(self) -> int | None:
        """Partial texts per text; None without a teacher to judge them."""
        if self.teacher is None:
            return None
        if self.parts is None:
            return DEFAULTS.parts
        return self.parts

    def _default_epochs(self) -> int:
        if self.init is not None:
            return DEFAULTS.epochs_fine_tuning
        if self.teacher is not None:
            return DEFAULTS.epochs_with_teacher
        return DEFAULTS.epochs_from_scratch

    def _check_ranges(self) -> None:
        """Refuses names that are not known and numbers out of range."""
        if self.size is not None and self.size not in SIZES:
            raise one_of("size", self.size, SIZES)
        if self.family is not None and self.family not in FAMILIES:
            raise one_of("family", self.family, FAMILIES)
        for name, lowest in _LEAST.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise InputError(
                    f"{_flag(name)} is {value}: give a whole number of at least {lowest}"
                )
        check_seed("--seed", self.seed)
        if self.rate is not None and not (math.isfinite(self.rate) and self.rate > 0):
            raise InputError(f"--rate is {self.rate}: give a learning rate above 0, such as 5e-5")
        if self.holdout is not None and not 0 < self.holdout < 1:
            raise InputError(
                f"--holdout is {self.holdout}: "
                "give the share of the rows to validate on, between 0 and 1, such as 0.1"
            )

    def _check_company(self) -> None:
        """Refuses options without effect beside others: they are mistakes, not wishes."""
        if self.init is not None:
            for name in ("size", "family", "width", "vocabulary"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"{_flag(name)} is only for a model from scratch, "
                        f"but --init starts from {self.init}: leave one of them out"
                    )
        elif self.revision is not None:
            raise InputError(
                "--revision was given without --init: give --init too, or leave --revision out"
            )
        if self.teacher is None and self.parts is not None:
            raise InputError(
                "--parts was given without --teacher: give --teacher too, or leave --parts out"
            )
        if self.validation is not None and self.holdout is not None:
            raise InputError(
                "--holdout splits the table, but --validation names another one: "
                "leave one of them out"
            )
        if self.pair is not None and self.pair == self.text:
            raise InputError(
                f"--pair and --text both name the column {self.text!r}: name two columns"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
