"""Goes through a training from the table to the folder."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from slalom_xai.data.tables.examples import Examples
from slalom_xai.data.training.data import Prepared, prepare
from slalom_xai.data.training.distil import (
    best_scale,
    centre,
    scale_head,
    start_from_teacher,
    undo_saturation,
    with_parts,
)
from slalom_xai.data.training.encoding import Reader, answers, harmless_side
from slalom_xai.data.training.loop import NO_LABEL, Course, Lesson, Trained, fit
from slalom_xai.data.training.options import LOOP, TrainingOptions
from slalom_xai.data.training.saving import (
    TrainingReport,
    check_folder,
    save,
    score,
    versions,
    write_record,
)
from slalom_xai.data.training.start import load_teacher, starting_model
from slalom_xai.errors import ModelError
from slalom_xai.models.load import choose_device
from slalom_xai.system.progress import Bar, progress_bar


def train(
    table: str | Path,
    out: str | Path,
    options: TrainingOptions | None = None,
    *,
    tell: Callable[[str], None] | None = None,
    show_progress: bool | None = None,
) -> TrainingReport:
    """Trains a classifier on a table and saves it to a folder.

    Args:
        table: CSV, TSV, JSON or Parquet file with a text and a label in each row.
        out: folder for the model; see ``TrainingOptions.overwrite``.
        options: everything else.
        tell: called with one line for each epoch, and for whatever a person should know.
        show_progress: whether to draw a progress bar; None: if standard error is a terminal.

    Returns:
        What happened; the same is saved in the folder's training.json.

    Raises:
        InputError: an option or a table that cannot be used.
        ModelError: a model that cannot be loaded or trained.
        KeyboardInterrupt: interrupted before the first epoch was over. Later, the best epoch so far
            is saved.
    """
    settled = (options or TrainingOptions()).resolve()
    check_folder(Path(out), settled.overwrite)
    device = choose_device(settled.device)
    _check_device(device)
    prepared = prepare(table, settled)
    gpus = []
    if device.type == "cuda":
        gpus.append(device)
    with torch.random.fork_rng(devices=gpus), progress_bar(show_progress) as bar:
        torch.manual_seed(settled.seed)
        return _Training(prepared, Path(out), settled, device, tell, bar).run()


class _Training:
    """One training; keeps the notes that its steps leave."""

    def __init__(
        self,
        prepared: Prepared,
        folder: Path,
        options: TrainingOptions,
        device: torch.device,
        tell: Callable[[str], None] | None,
        bar: Bar | None,
    ) -> None:
        self._prepared = prepared
        self._folder = folder
        self._options = options
        self._device = device
        self._bar = bar
        self._tell = tell or (lambda line: None)
        self._notes: list[str] = []
        self._began = time.perf_counter()

    def run(self) -> TrainingReport:
        """Trains, saves and tests; returns what happened."""
        prepared, options = self._prepared, self._options
        model, tokenizer = starting_model(prepared, options)
        model.config.text_pair = prepared.training.pairs is not None
        lesson = self._lesson(model, tokenizer)
        reader = Reader(model, tokenizer, options.max_length)
        validation = Lesson(
            self._read(reader, prepared.validation, "validation texts"),
            self._classes(prepared.validation),
        )
        self._to_device(model)
        trained = fit(model, lesson, validation, self._course(), tell=self._tell, bar=self._bar)
        self._note_ending(trained)
        scale = None
        if options.teacher is not None:
            scale = self._calibrate(model, trained, validation)
        report = self._report(model, trained, validation, scale)
        save(model, tokenizer, self._folder, self._record(report), half=options.half)
        if report.interrupted or prepared.test is None:
            return report
        return self._test(model, reader, report)

    def _report(
        self, model: Any, trained: Trained, validation: Lesson, scale: float | None
    ) -> TrainingReport:
        """What happened so far; the test comes later."""
        return TrainingReport(
            folder=str(self._folder),
            labels=self._prepared.classes.names,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            rows=len(self._prepared.training),
            history=trained.history,
            best_epoch=trained.best.epoch,
            validation=score(trained.best.logits * (scale or 1.0), validation.labels),
            test=None,
            scale=scale,
            notes=tuple(self._notes),
            interrupted=trained.ending == "interrupted",
            seconds=time.perf_counter() - self._began,
        )

    def _lesson(self, model: Any, tokenizer: Any) -> Lesson:
        """What the model learns: the labels of the table, and a teacher's answers."""
        options, whole = self._options, self._prepared.training
        reader = Reader(model, tokenizer, options.max_length)
        labels = self._classes(whole)
        if options.teacher is None:
            return Lesson(self._read(reader, whole, "training texts"), labels)
        teacher, teacher_tokenizer, class_order = load_teacher(
            options.teacher,
            self._prepared.classes.names,
            trust_remote_code=options.trust_remote_code,
        )
        if options.init is None:
            start_from_teacher(model, tokenizer, teacher, teacher_tokenizer)
        everything = with_parts(whole, options.parts or 0, options.seed + 1)
        taught = self._teacher_answers(teacher, teacher_tokenizer, everything)
        unlabelled = torch.full((len(everything) - len(whole),), NO_LABEL)
        encoded = self._read(reader, everything, "texts, partial ones included")
        return Lesson(
            encoded,
            torch.cat([labels, unlabelled]),
            undo_saturation(centre(taught[:, class_order])),
        )

    def _teacher_answers(
        self, teacher: Any, teacher_tokenizer: Any, examples: Examples
    ) -> torch.Tensor:
        """The teacher's logits for all examples, (rows, its classes)."""
        reader = Reader(teacher, teacher_tokenizer, None)
        texts = self._read(reader, examples, "texts, partial ones included, for the teacher")
        self._to_device(teacher)
        if self._bar is not None:
            self._bar.start(len(texts), "asking the teacher", afresh=True)
        return answers(teacher, texts, side=harmless_side(teacher, texts), bar=self._bar)

    def _read(self, reader: Reader, examples: Examples, what: str) -> Any:
        encoded, cut = reader.read(examples, self._device)
        if cut:
            self._note(
                f"{cut} of {len(examples)} {what} are longer than {reader.limit} tokens "
                "and were cut there"
            )
        return encoded

    def _classes(self, examples: Examples) -> torch.Tensor:
        return torch.tensor(self._prepared.classes.indices(examples))

    def _to_device(self, model: Any) -> None:
        try:
            model.to(self._device)
        except (RuntimeError, AssertionError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(
                f"cannot put the model on {self._device}: {reason}; "
                "give --device cpu, or a device that is there"
            ) from error

    def _course(self) -> Course:
        """How the model learns."""
        options = self._options
        # ``resolve`` has filled these in.
        assert options.epochs is not None
        assert options.rate is not None
        tokens, holes = LOOP.tokens_fine_tuning, 0.0
        if options.init is None:
            tokens = LOOP.tokens_from_scratch
            if options.teacher is None:
                holes = LOOP.holes
        return Course(
            epochs=options.epochs,
            rate=options.rate,
            rows=options.batch,
            tokens=tokens,
            decay=LOOP.decay,
            holes=holes,
            patience=options.patience,
            seed=options.seed,
        )

    def _calibrate(self, model: Any, trained: Trained, validation: Lesson) -> float | None:
        """Multiplies the last layer so that probabilities fit; None if there is no such layer."""
        scale = best_scale(trained.best.logits, validation.labels)
        if scale_head(model, scale):
            return scale
        self._note(
            "the probabilities were not calibrated because the model has no last layer to scale"
        )
        return None

    def _note(self, sentence: str) -> None:
        self._notes.append(sentence)
        self._tell(sentence)

    def _note_ending(self, trained: Trained) -> None:
        finished, best = len(trained.history), trained.best.epoch
        if trained.ending == "early":
            self._note(
                f"stopped after epoch {finished}: no better validation accuracy for "
                f"{finished - best} epochs; epoch {best} is kept"
            )
        if trained.ending == "interrupted":
            self._note(
                f"interrupted in epoch {finished + 1}: "
                f"the best of the {finished} finished epochs, epoch {best}, is kept"
            )

    def _test(self, model: Any, reader: Reader, report: TrainingReport) -> TrainingReport:
        """The report with the score on the test table, which is looked at nowhere else."""
        assert self._prepared.test is not None
        encoded = self._read(reader, self._prepared.test, "test texts")
        self._to_device(model)
        if self._bar is not None:
            self._bar.start(len(encoded), "scoring the test texts", afresh=True)
        logits = answers(model, encoded, side=harmless_side(model, encoded), bar=self._bar)
        report = replace(
            report,
            test=score(logits, self._classes(self._prepared.test)),
            notes=tuple(self._notes),
            seconds=time.perf_counter() - self._began,
        )
        write_record(self._folder, self._record(report))
        return report

    def _record(self, report: TrainingReport) -> dict[str, Any]:
        """What training.json holds."""
        return {
            "report": report.to_dict(),
            "options": self._options.model_dump(mode="json"),
            "data": self._prepared.sources,
            "versions": versions() | {"python": platform.python_version()},
            "device": str(self._device),
        }


def _check_device(device: torch.device) -> None:
    """Refuses a device that is not there, before anything is read."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"cannot use the device {device}: {reason}; "
            "give --device cpu, or a device that is there"
        ) from error
