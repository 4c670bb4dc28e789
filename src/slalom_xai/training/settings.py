"""Every number that a training is tuned by, with its unit and what it trades off."""

from __future__ import annotations

from dataclasses import dataclass


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
