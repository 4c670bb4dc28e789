"""What can be set, and which settings go together."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

from slalom_xai.errors import InputError, check_seed, one_of

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


@dataclass(frozen=True)
class TrainingOptions:
    """Everything ``slalom train`` can be told apart from the table and the folder.

    Attributes:
        text: field of the table that holds the texts.
        label: field that holds the classes.
        pair: field that holds the second text of each pair, or None.
        labels: names of the classes: their order where the table has names, their names in
            numerical order where it has numbers.
        validation: table that picks the epoch, instead of a part of the training table.
        holdout: share of each class kept for validation; 0.1 if None.
        test: table that is scored once, at the end.
        init: folder or hub id of the model to start from; None: from scratch.
        revision: commit, tag or branch of ``init``.
        trust_remote_code: let models bring code of their own.
        size: preset from scratch: tiny, small or base; tiny if None.
        family: architecture from scratch: bert or distilbert (read both ways), or gpt2 (reads
            forwards); bert if None.
        layers: layers from scratch, or how many of the first layers of ``init`` to keep.
        width: numbers per token from scratch.
        vocabulary: tokens of the tokenizer that is made from the texts.
        teacher: folder or hub id of the classifier to learn from.
        parts: partial texts per text that the teacher judges, too; 4 if None.
        epochs: passes over the training texts; if None, 3 for fine-tuning, 6 with a teacher, 10
            from scratch.
        rate: largest learning rate; if None, 5e-5 for fine-tuning, by size from scratch.
        batch: most texts in a batch; from the number of texts if None.
        patience: epochs without a better validation accuracy before training stops; 3 if None.
        max_length: tokens kept of a text; what the model reads, at most 512, if None.
        seed: the same seed gives the same model on the same machine.
        device: where to train; a GPU if there is one and None.
        half: store the weights as float16.
        overwrite: replace what an earlier training wrote to the folder.
    """

    text: str = "text"
    label: str = "label"
    pair: str | None = None
    labels: tuple[str, ...] | None = None
    validation: str | Path | None = None
    holdout: float | None = None
    test: str | Path | None = None
    init: str | Path | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    size: str | None = None
    family: str | None = None
    layers: int | None = None
    width: int | None = None
    vocabulary: int | None = None
    teacher: str | Path | None = None
    parts: int | None = None
    epochs: int | None = None
    rate: float | None = None
    batch: int | None = None
    patience: int | None = None
    max_length: int | None = None
    seed: int = 0
    device: str | None = None
    half: bool = False
    overwrite: bool = False

    def resolve(self) -> TrainingOptions:
        """The options with every default that depends on others filled in.

        Raises:
            InputError: a value out of range, or two options that exclude each other.
        """
        self._check_ranges()
        self._check_company()
        filled = replace(
            self,
            holdout=self._resolve_holdout(),
            parts=self._resolve_parts(),
            patience=self.patience or DEFAULTS.patience,
            epochs=self.epochs or self._default_epochs(),
        )
        if self.init is not None:
            return replace(filled, rate=self.rate or DEFAULTS.rate_fine_tuning)
        name = self.size or DEFAULTS.size
        size = SIZES[name]
        return replace(
            filled,
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
