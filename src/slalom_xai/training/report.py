"""What a training leaves to read."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class Epoch:
    """One pass over the training texts.

    Attributes:
        epoch: its number, from 1.
        training_loss: mean over its batches.
        validation_loss: cross-entropy on the validation part.
        validation_accuracy: share of right answers there.
        seconds: how long it took.
    """

    epoch: int
    training_loss: float
    validation_loss: float
    validation_accuracy: float
    seconds: float


@dataclass(frozen=True)
class Score:
    """How a model does on texts.

    Attributes:
        accuracy: share of right answers.
        loss: mean cross-entropy.
        confidence: mean probability of the answers it gives; near the accuracy where probabilities
            can be trusted.
        rows: texts it was asked about.
    """

    accuracy: float
    loss: float
    confidence: float
    rows: int


def score(logits: Tensor, labels: Tensor) -> Score:
    """Compares logits (rows, classes) with the classes (rows,)."""
    logits = logits.double()
    best = logits.softmax(1).max(1)
    return Score(
        accuracy=float((best.indices == labels).double().mean()),
        loss=float(cross_entropy(logits, labels)),
        confidence=float(best.values.mean()),
        rows=len(labels),
    )


@dataclass(frozen=True)
class TrainingReport:
    """What happened in a training.

    Attributes:
        folder: where the model is.
        labels: the classes, in the order of the logits.
        parameters: numbers in the model.
        rows: texts it was trained on, without those set aside.
        history: every finished epoch.
        best_epoch: the one that is saved.
        validation: how the saved model does on the validation part.
        test: how it does on the test table; None without one, or if it was interrupted.
        scale: what the last layer was multiplied with to fit the probabilities; None without a
            teacher.
        notes: what a person should know, such as how many texts were cut.
        interrupted: whether Ctrl-C ended it.
        seconds: how long everything took.
    """

    folder: str
    labels: tuple[str, ...]
    parameters: int
    rows: int
    history: tuple[Epoch, ...]
    best_epoch: int
    validation: Score
    test: Score | None
    scale: float | None
    notes: tuple[str, ...]
    interrupted: bool
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        plain = asdict(self)
        for name in ("labels", "history", "notes"):
            plain[name] = list(plain[name])
        return plain
