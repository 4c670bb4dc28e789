"""Goes through a training from the table to the folder."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from slalom_xai.errors import ModelError
from slalom_xai.models.load import chosen_device
from slalom_xai.progress import Bar, progress_bar
from slalom_xai.training.architecture import new_model, new_tokenizer
from slalom_xai.training.data import Examples, Prepared, prepare
from slalom_xai.training.distil import (
    best_scale,
    centred,
    scale_head,
    start_from_teacher,
    stretched,
    with_parts,
)
from slalom_xai.training.encoding import Reader, answers, harmless_side
from slalom_xai.training.loop import Course, Lesson, Outcome, fit
from slalom_xai.training.options import TrainingOptions
from slalom_xai.training.pretrained import load_start, load_teacher
from slalom_xai.training.report import TrainingReport, score
from slalom_xai.training.saving import check_folder, save, versions, write_record

_HOLES = 0.4  # labels alone teach a new model little: reading only parts of each text keeps it from learning them by heart


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
        KeyboardInterrupt: interrupted before the first epoch was over. Later, the best epoch so far is saved.
    """
    settled = (options or TrainingOptions()).settled()
    check_folder(Path(out), settled.overwrite)
    device = chosen_device(settled.device)
    _check_device(device)
    prepared = prepare(table, settled)
    gpus = [device] if device.type == "cuda" else []
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
        self._prepared, self._folder, self._options, self._device, self._bar = (
            prepared,
            folder,
            options,
            device,
            bar,
        )
        self._tell = tell or (lambda line: None)
        self._notes: list[str] = []
        self._began = time.perf_counter()

    def run(self) -> TrainingReport:
        prepared, options = self._prepared, self._options
        model, tokenizer = self._start()
        model.config.text_pair = prepared.training.pairs is not None
        lesson = self._lesson(model, tokenizer)
        reader = Reader(model, tokenizer, options.max_length)
        validation = Lesson(
            self._read(reader, prepared.validation, "validation texts"),
            self._classes(prepared.validation),
        )
        self._to_device(model)
        outcome = fit(model, lesson, validation, self._course(), tell=self._tell, bar=self._bar)
        self._note_ending(outcome)
        scale = self._calibrate(model, outcome, validation) if options.teacher is not None else None
        report = TrainingReport(
            folder=str(self._folder),
            labels=prepared.classes.names,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            rows=len(prepared.training),
            history=outcome.history,
            best_epoch=outcome.best.epoch,
            validation=score(outcome.best.logits * (scale or 1.0), validation.labels),
            test=None,
            scale=scale,
            notes=tuple(self._notes),
            interrupted=outcome.ending == "interrupted",
            seconds=time.perf_counter() - self._began,
        )
        save(model, tokenizer, self._folder, self._record(report), half=options.half)
        return (
            report
            if report.interrupted or prepared.test is None
            else self._tested(model, reader, report)
        )

    def _start(self) -> tuple[Any, Any]:
        """The model before training, and its tokenizer."""
        options, names = self._options, self._prepared.classes.names
        if options.init is not None:
            return load_start(
                options.init,
                names,
                layers=options.layers,
                revision=options.revision,
                trust_remote_code=options.trust_remote_code,
            )
        limit, family = options.max_length or 512, options.family or "bert"
        texts = self._prepared.training.texts + (self._prepared.training.pairs or ())
        tokenizer = new_tokenizer(
            texts, vocabulary=options.vocabulary or 8192, limit=limit, family=family
        )
        model = new_model(
            tokenizer,
            family=family,
            layers=options.layers or 2,
            width=options.width or 128,
            limit=limit,
            dropout=0.2 if options.teacher is None else 0.1,
            labels=names,
        )
        return model, tokenizer

    def _lesson(self, model: Any, tokenizer: Any) -> Lesson:
        """What the model learns: the labels of the table, and a teacher's answers."""
        options, whole = self._options, self._prepared.training
        reader = Reader(model, tokenizer, options.max_length)
        labels = self._classes(whole)
        if options.teacher is None:
            return Lesson(self._read(reader, whole, "training texts"), labels)
        names = self._prepared.classes.names
        teacher, teacher_tokenizer, places = load_teacher(
            options.teacher, names, trust_remote_code=options.trust_remote_code
        )
        if options.init is None:
            start_from_teacher(model, tokenizer, teacher, teacher_tokenizer)
        everything = with_parts(whole, options.parts or 0, options.seed + 1)
        texts = self._read(
            Reader(teacher, teacher_tokenizer, None),
            everything,
            "texts, partial ones included, for the teacher",
        )
        self._to_device(teacher)
        if self._bar is not None:
            self._bar.start(len(texts), "asking the teacher", afresh=True)
        taught = answers(teacher, texts, side=harmless_side(teacher, texts), bar=self._bar)
        unlabelled = torch.full((len(everything) - len(whole),), -1)
        encoded = self._read(reader, everything, "texts, partial ones included")
        return Lesson(
            encoded, torch.cat([labels, unlabelled]), stretched(centred(taught[:, places]))
        )

    def _read(self, reader: Reader, examples: Examples, what: str) -> Any:
        encoded, cut = reader.read(examples, self._device)
        if cut:
            self._note(
                f"{cut} of {len(examples)} {what} are longer than {reader.limit} tokens and were cut there"
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
                f"cannot put the model on {self._device}: {reason}; give --device cpu, or a device that is there"
            ) from error

    def _course(self) -> Course:
        options, scratch = self._options, self._options.init is None
        return Course(
            epochs=options.epochs or 1,
            rate=options.rate or 1e-3,
            rows=options.batch,
            tokens=32768 if scratch else 16384,
            decay=0.01,
            holes=_HOLES if scratch and options.teacher is None else 0.0,
            patience=options.patience,
            seed=options.seed,
        )

    def _calibrate(self, model: Any, outcome: Outcome, validation: Lesson) -> float | None:
        scale = best_scale(outcome.best.logits, validation.labels)
        if scale_head(model, scale):
            return scale
        self._note(
            "the probabilities were not calibrated because the model has no last layer to scale"
        )
        return None

    def _note(self, sentence: str) -> None:
        self._notes.append(sentence)
        self._tell(sentence)

    def _note_ending(self, outcome: Outcome) -> None:
        finished, best = len(outcome.history), outcome.best.epoch
        if outcome.ending == "early":
            waited = finished - best
            self._note(
                f"stopped after epoch {finished}: no better validation accuracy for {waited} epochs; epoch {best} is kept"
            )
        if outcome.ending == "interrupted":
            self._note(
                f"interrupted in epoch {finished + 1}: the best of the {finished} finished epochs, epoch {best}, is kept"
            )

    def _tested(self, model: Any, reader: Reader, report: TrainingReport) -> TrainingReport:
        """The report with the score on the test table, which is looked at here only."""
        assert self._prepared.test is not None
        encoded = self._read(reader, self._prepared.test, "test texts")
        self._to_device(model)
        if self._bar is not None:
            self._bar.start(len(encoded), "scoring the test texts", afresh=True)
        reached = score(
            answers(model, encoded, side=harmless_side(model, encoded), bar=self._bar),
            self._classes(self._prepared.test),
        )
        report = replace(
            report,
            test=reached,
            notes=tuple(self._notes),
            seconds=time.perf_counter() - self._began,
        )
        write_record(self._folder, self._record(report))
        return report

    def _record(self, report: TrainingReport) -> dict[str, Any]:
        options = {
            name: str(value) if isinstance(value, Path) else value
            for name, value in asdict(self._options).items()
        }
        return {
            "report": report.to_dict(),
            "options": options,
            "data": self._prepared.sources,
            "versions": versions() | {"python": platform.python_version()},
            "device": str(self._device),
        }


def _check_device(device: torch.device) -> None:
    """A device that is not there should be known before anything is read."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"cannot use the device {device}: {reason}; give --device cpu, or a device that is there"
        ) from error
