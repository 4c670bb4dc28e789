"""The training loop: batches of similar length, and by default AdamW and the best epoch kept.

With z the logits of a text, y its class and t the teacher's centred answers, the loss of a batch of
B texts is

    1/B sum over labelled texts of cross_entropy(z, y)  +  mean of smooth_l1(2 (z - mean z), 2 t)

where the second part is only there with a teacher. Doubling makes it a distance of log odds: twice
the centred log probability is the log odds of two classes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, smooth_l1_loss

from slalom_xai.data.training.encoding import EncodedTexts, answers, harmless_side
from slalom_xai.data.training.options import LOOP
from slalom_xai.data.training.saving import Epoch, Score, score
from slalom_xai.errors import ModelError
from slalom_xai.queries.cutting import groups_by_length
from slalom_xai.system.progress import Bar

NO_LABEL = -1  # the class of a text that only the teacher knows


@dataclass(frozen=True)
class Lesson:
    """What is learnt.

    Attributes:
        encoded: the texts.
        labels: (rows,), their classes; ``NO_LABEL`` where only the teacher knows.
        taught: (rows, classes), what the teacher answers, centred over the classes; None without
            one.
    """

    encoded: EncodedTexts
    labels: Tensor
    taught: Tensor | None = None


@dataclass(frozen=True)
class Course:
    """How it is learnt.

    Attributes:
        epochs: passes over the lesson.
        rate: largest learning rate.
        rows: most rows in a batch; from the lesson's size if None.
        tokens: most tokens in a batch.
        decay: weight decay.
        holes: mean share of a text's tokens left out at random, other ones each time.
        patience: epochs without improvement before it ends; None: never.
        seed: for the batches.
        optimizer: makes what takes the steps, from the parameters, in place of AdamW; its learning
            rate is then the same in all steps, instead of going up and down.
        keep: which epoch's weights are kept: the "best" on the validation part, or the "last".
    """

    epochs: int
    rate: float
    rows: int | None
    tokens: int
    decay: float
    holes: float
    patience: int | None
    seed: int
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None
    keep: Literal["best", "last"] = "best"


@dataclass(frozen=True)
class Best:
    """The best epoch so far: its number, weights and logits on the validation part."""

    epoch: int
    state: dict[str, Tensor]
    logits: Tensor
    score: Score

    def is_beaten_by(self, other: Score) -> bool:
        """More right answers, or as many with a lower loss."""
        return (other.accuracy, -other.loss) > (self.score.accuracy, -self.score.loss)


@dataclass(frozen=True)
class Trained:
    """What the loop hands back.

    Attributes:
        best: the best epoch.
        history: all finished epochs.
        ending: how it ended: "done", "early" or "interrupted".
    """

    best: Best
    history: tuple[Epoch, ...]
    ending: str


class _Log:
    """The epochs so far, and the best of them."""

    def __init__(self, course: Course, tell: Callable[[str], None]) -> None:
        self._course, self._tell = course, tell
        self.history: list[Epoch] = []
        self.best: Best | None = None

    def add(self, model: Any, loss: float, logits: Tensor, labels: Tensor, seconds: float) -> None:
        """An epoch is over."""
        reached = score(logits, labels)
        epoch = Epoch(len(self.history) + 1, loss, reached.loss, reached.accuracy, seconds)
        if self.best is None or self.best.is_beaten_by(reached):
            weights = model.state_dict()
            state = {name: value.detach().cpu().clone() for name, value in weights.items()}
            self.best = Best(epoch.epoch, state, logits, reached)
        self.history.append(epoch)
        self._tell(
            f"epoch {epoch.epoch}/{self._course.epochs}: "
            f"training loss {loss:.4f}, validation loss {reached.loss:.4f}, "
            f"accuracy {reached.accuracy:.4f}, {seconds:.1f} s"
        )

    def tired(self) -> bool:
        """Whether patience is over, with epochs left."""
        assert self.best is not None
        patience = self._course.patience
        if patience is None or len(self.history) == self._course.epochs:
            return False
        return len(self.history) - self.best.epoch >= patience


def fit(
    model: Any,
    lesson: Lesson,
    validation: Lesson,
    course: Course,
    *,
    tell: Callable[[str], None],
    bar: Bar | None = None,
) -> Trained:
    """Trains as the course says; ``validation`` picks the best epoch.

    Ctrl-C ends it with what the finished epochs have learnt; before the first is finished, it is
    raised.

    Raises:
        ModelError: the loss is no number any more, or the device has too little memory.
    """
    log = _Log(course, tell)
    try:
        with _quick_attention(next(model.parameters()).device):
            ending = _epochs(model, lesson, validation, course, log, bar)
    except KeyboardInterrupt:
        if log.best is None:
            raise
        ending = "interrupted"
    except torch.cuda.OutOfMemoryError as error:
        raise ModelError(
            "the device has too little memory for a batch: "
            "give a smaller --batch or --max-length, or --device cpu"
        ) from error
    assert log.best is not None
    if course.keep == "best":
        model.load_state_dict(log.best.state)
    return Trained(log.best, tuple(log.history), ending)


def _epochs(
    model: Any, lesson: Lesson, validation: Lesson, course: Course, log: _Log, bar: Bar | None
) -> str:
    """Goes through the epochs; returns "done", or "early" if patience ended it."""
    side = harmless_side(model, lesson.encoded)
    rng = random.Random(course.seed)
    groups = _epoch_batches(lesson, course, side, rng)
    teaching = _Teaching(model, lesson, course, side, steps=course.epochs * len(groups))
    for epoch in range(1, course.epochs + 1):
        if bar is not None:
            bar.start(len(lesson.encoded), f"epoch {epoch} of {course.epochs}", afresh=True)
        began = time.perf_counter()
        loss = teaching.epoch(groups, f"epoch {epoch}", bar)
        logits = answers(model, validation.encoded, side=side)
        log.add(model, loss, logits, validation.labels, time.perf_counter() - began)
        if log.tired():
            return "early"
        groups = _epoch_batches(lesson, course, side, rng)
    return "done"


class _Teaching:
    """One model, one lesson and one optimiser, through all epochs."""

    def __init__(
        self, model: Any, lesson: Lesson, course: Course, side: str | None, *, steps: int
    ) -> None:
        self._model, self._lesson, self._course = model, lesson, course
        self._side = side or "right"
        self._device = next(model.parameters()).device
        self._optimizer = _optimizer(model, course)
        self._schedule = _schedule(self._optimizer, steps, constant=course.optimizer is not None)

    def epoch(self, groups: list[list[int]], name: str, bar: Bar | None) -> float:
        """One pass over batches of rows; returns the mean loss.

        Raises:
            ModelError: the loss is no number any more.
        """
        self._model.train()
        total = torch.zeros((), device=self._device)
        for step, group in enumerate(groups, start=1):
            total += self._step(group)
            is_time = step % LOOP.check_every == 0 or step == len(groups)
            if is_time and not bool(torch.isfinite(total)):
                raise ModelError(
                    f"the loss is no longer a finite number in {name}: "
                    f"give a --rate below {self._course.rate:g}"
                )
            if bar is not None:
                bar.advance(len(group))
        return float(total) / len(groups)

    def _step(self, group: list[int]) -> Tensor:
        """Learns from one batch; returns its loss, ()."""
        inputs = self._lesson.encoded.batch(group, self._side, self._course.holes)
        on_gpu = self._device.type == "cuda"
        with torch.autocast(self._device.type, torch.bfloat16, enabled=on_gpu):
            logits = self._model(**inputs).logits.float()
        loss = _loss(logits, self._lesson, group)
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self._model.parameters(), LOOP.gradient_norm)
        self._optimizer.step()
        self._schedule.step()
        return loss.detach()


def _loss(logits: Tensor, lesson: Lesson, group: list[int]) -> Tensor:
    """Cross-entropy to the labels, where there are any, and distance to the teacher's answers.

    Args:
        logits: (batch, classes).
        lesson: has the labels and the teacher's answers.
        group: the rows of the lesson in the batch.
    """
    labels = lesson.labels[group].to(logits.device)
    to_label = cross_entropy(logits, labels, ignore_index=NO_LABEL, reduction="sum") / len(group)
    if lesson.taught is None:
        return to_label
    centred = logits - logits.mean(1, keepdim=True)
    taught = lesson.taught[group].to(logits.device)
    return to_label + smooth_l1_loss(2 * centred, 2 * taught)


def _epoch_batches(
    lesson: Lesson, course: Course, side: str | None, rng: random.Random
) -> list[list[int]]:
    """Small tables take small batches, so that an epoch has enough steps to learn in."""
    for_steps = len(lesson.encoded) // LOOP.steps_per_epoch
    rows = course.rows or min(LOOP.most_rows, max(LOOP.least_rows, for_steps))
    return groups_by_length(
        lesson.encoded.lengths, tokens=course.tokens, rows=rows, rng=rng, exact=side is None
    )


def _optimizer(model: Any, course: Course) -> torch.optim.Optimizer:
    """What makes the steps of a course."""
    if course.optimizer is not None:
        return course.optimizer(model.parameters())
    return torch.optim.AdamW(model.parameters(), lr=course.rate, weight_decay=course.decay)


def _schedule(optimizer: torch.optim.Optimizer, steps: int, *, constant: bool) -> Any:
    """The learning rate goes up in the first steps, and then down to nothing, unless constant."""
    warm = max(1, steps // LOOP.warm_up)

    def factor(step: int) -> float:
        if constant:
            return 1.0
        return min((step + 1) / warm, max(0.0, (steps - step) / max(1, steps - warm)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@contextmanager
def _quick_attention(device: torch.device) -> Iterator[None]:
    """Keeps cuDNN's attention away on a GPU.

    It plans anew for every batch shape, which takes far longer than it saves.
    """
    if device.type != "cuda":
        yield
        return
    switches: Any = torch.backends.cuda
    usual = switches.cudnn_sdp_enabled()
    switches.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        switches.enable_cudnn_sdp(usual)
