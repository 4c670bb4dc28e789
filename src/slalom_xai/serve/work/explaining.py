"""What a worker does with jobs: explains them, shows rounds, keeps results."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from slalom_xai.errors import SlalomError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.saving import file_content
from slalom_xai.models import TextModel
from slalom_xai.reports.terminal import in_one_line
from slalom_xai.reports.view import explanation_data
from slalom_xai.reports.wording import predicted_class
from slalom_xai.serve import logs
from slalom_xai.serve.store.file import Known, Result, Results, as_json, question_key, read_settings
from slalom_xai.serve.store.jobs import Bound, Jobs, Task
from slalom_xai.serve.work.spec import WorkerSpec
from slalom_xai.system.progress import shown_by
from slalom_xai.system.sqlite import Damaged, has_no_room

log = logging.getLogger("slalom.worker")

_PAUSE = 0.25  # seconds between two notes of how far the work is
_ROOM = 5.0  # seconds between two tries to write to a full disk
_MOST_EXPLAINERS = 16  # that are kept, one for each combination of settings


class Stopped(Exception):
    """The work was cancelled, took too long, or the worker must end."""


class JobWorker:
    """Explains the jobs of one model.

    Args:
        spec: of the worker.
        model: as loaded.
        bound: which model it is.
        jobs: where jobs are found.
        results: where results are kept.
        ending: set when the worker must end.
        explained: is told of each new result, for whoever lists texts with their fidelity.
    """

    def __init__(
        self,
        spec: WorkerSpec,
        model: TextModel,
        bound: Bound,
        jobs: Jobs,
        results: Results,
        ending: threading.Event,
        explained: Callable[[Task, Result], None],
    ) -> None:
        self._spec, self._model, self._bound = spec, model, bound
        self._fingerprint = bound.fingerprint or ""
        self._jobs, self._results = jobs, results
        self._ending, self._explained = ending, explained
        self._explainers: dict[str, Explainer] = {}

    def work(self) -> bool:
        """Takes jobs that wait and explains them; False where there were none."""
        spec = self._spec
        tasks = self._jobs.claim(self._bound, spec.owner, spec.limits.together)
        if not tasks:
            return False
        new = [task for task in tasks if not self._answered(task)]
        if new:
            self._explain(_distinct(new))
            self._explain_repeats(new)
        return True

    def _explain_repeats(self, tasks: Sequence[Task]) -> None:
        """Ends jobs that waited for another one with the same text."""
        left = self._jobs.still_wanted([task.id for task in tasks], self._spec.owner)
        for task in tasks:
            if task.id in left and not self._ending.is_set() and not self._answered(task):
                self._explain([task])

    def _key(self, task: Task) -> str:
        return question_key(task.text, task.text_pair, self._fingerprint, task.settings)

    def _answered(self, task: Task) -> bool:
        """Finishes a job whose answer is known."""
        result = self._results.known(self._key(task))
        if result is not None:
            self._jobs.finish_known(task.id, result)
        return result is not None

    def _explain(self, tasks: Sequence[Task]) -> None:
        """Explains jobs together; where that fails, one by one, so that each has its own error."""
        started = time.monotonic()
        try:
            explanations = self._explanations(tasks)
        except Stopped as error:
            self._stop(tasks, error)
        except Damaged as error:
            for task in tasks:
                self._fail(task, error)
        except sqlite3.Error:
            raise  # nothing is wrong with the jobs
        except Exception as error:
            if len(tasks) == 1:
                self._fail(tasks[0], error)
            else:
                for task in tasks:
                    self._explain([task])
        else:
            for task, explanation in zip(tasks, explanations, strict=True):
                self._finish(task, explanation, (time.monotonic() - started) / len(tasks))

    def _explanations(self, tasks: Sequence[Task]) -> list[Explanation]:
        explainer = self._explainer(tasks[0].settings)
        explainer.on_round = partial(self._show, tasks)
        seconds = self._spec.limits.seconds * len(tasks)
        ids = [task.id for task in tasks]
        watch = _Watch(ids, self._spec.owner, self._jobs, seconds, self._ending)
        with shown_by(watch):
            if len(tasks) == 1:
                return [explainer(tasks[0].text, tasks[0].text_pair)]
            pairs = [task.text_pair for task in tasks if task.text_pair is not None]
            return explainer([task.text for task in tasks], pairs or None)

    def _explainer(self, settings: str) -> Explainer:
        if settings not in self._explainers:
            while len(self._explainers) >= _MOST_EXPLAINERS:
                self._explainers.pop(next(iter(self._explainers)))
            given = read_settings(settings)
            self._explainers[settings] = Explainer(
                self._model,
                method=given["method"],
                granularity=given["granularity"],
                target=given["target"],
                removal=given["removal"],
                budget=given["budget"],
                random_state=given["seed"],
            )
        return self._explainers[settings]

    def _show(self, tasks: Sequence[Task], explanation: Explanation) -> None:
        """Shows a preliminary result to whoever watches its job."""
        view = as_json(explanation_data(explanation))
        for task in tasks:
            if (task.text, task.text_pair) == (explanation.text, explanation.text_pair):
                with _not_worth_stopping():
                    self._jobs.show_round(task.id, self._known(task, explanation), view)

    def _finish(self, task: Task, explanation: Explanation, seconds: float) -> None:
        try:
            result = self._result(task, explanation)
        except SlalomError as error:  # numbers that no file and no picture can hold
            return self._fail(task, error)
        self._keep(task, result)
        log.info(
            "job %d done: %s, %s, %d units, %d calls, %.1f s",
            task.id,
            self._spec.name,
            explanation.method,
            len(explanation.units),
            explanation.calls,
            seconds,
        )

    def _known(self, task: Task, explanation: Explanation) -> Known:
        fidelity = None
        if explanation.fidelity is not None:
            fidelity = explanation.fidelity.any.r2
        label, probability = predicted_class(explanation)
        return Known(
            key=self._key(task),
            model=self._spec.name,
            fingerprint=self._fingerprint,
            settings=task.settings,
            summary=in_one_line(explanation),
            calls=explanation.calls,
            prediction=explanation.prediction,
            predicted=label,
            probability=probability,
            fidelity=fidelity,
        )

    def _result(self, task: Task, explanation: Explanation) -> Result:
        return Result(
            **asdict(self._known(task, explanation)),
            file=file_content(explanation),
            view=as_json(explanation_data(explanation)),
        )

    def _keep(self, task: Task, result: Result) -> None:
        """Writes a result; where the disk is full, waits for room."""
        while True:
            try:
                self._jobs.finish(task.id, result)
                return self._explained(task, result)
            except sqlite3.OperationalError as error:
                if not has_no_room(error) or self._ending.is_set():
                    raise
                log.error("the disk of the store is full: make room, job %d waits for it", task.id)
                self._ending.wait(_ROOM)

    def _stop(self, tasks: Sequence[Task], error: Stopped) -> None:
        """Ends jobs whose work was stopped; those of a worker that must end are handed back."""
        if self._ending.is_set():
            return
        wanted = self._jobs.still_wanted([task.id for task in tasks], self._spec.owner)
        for task in tasks:
            if task.id in wanted:
                self._fail(task, error)
            else:
                log.info("job %d cancelled", task.id)

    def _fail(self, task: Task, error: Exception) -> None:
        if isinstance(error, (SlalomError, Stopped, Damaged)):
            message = self._spec.without_paths(str(error))
            shown = f": {message}" if self._spec.log_texts else ""
            log.info("job %d failed: %s%s", task.id, type(error).__name__, shown)
        else:
            message = "an error in slalom-xai itself; the server's log has more"
            log.error("job %d failed: %s", task.id, logs.trace(error, texts=self._spec.log_texts))
        self._jobs.fail(task.id, message)


def _distinct(tasks: Sequence[Task]) -> list[Task]:
    """One job for each text."""
    by_text: dict[tuple[str, str | None], Task] = {}
    for task in tasks:
        by_text.setdefault((task.text, task.text_pair), task)
    return list(by_text.values())


@contextmanager
def _not_worth_stopping() -> Iterator[None]:
    """Notes of how far the work is may fail where a disk is full; the work goes on."""
    try:
        yield
    except sqlite3.OperationalError as error:
        log.error("how far a job is could not be written: %s", error)


class _Watch:
    """Notes how far jobs are, and ends the work where nobody wants it any more."""

    def __init__(
        self, ids: Sequence[int], owner: str, jobs: Jobs, seconds: float, ending: threading.Event
    ) -> None:
        self._ids, self._owner, self._jobs, self._ending = ids, owner, jobs, ending
        self._seconds, self._started = seconds, time.monotonic()
        self._noted = 0.0

    def show(self, done: int, total: int, label: str) -> None:
        """As a progress bar's display does."""
        now = time.monotonic()
        if now - self._noted < _PAUSE:
            return
        self._noted = now
        if self._ending.is_set():
            raise Stopped("the worker was told to end")
        if now - self._started > self._seconds:
            raise Stopped(
                f"the work took longer than the {self._seconds:.0f} seconds that a job has: "
                "give a shorter text, a larger granularity or a smaller budget"
            )
        if not self._jobs.still_wanted(self._ids, self._owner):
            raise Stopped("cancelled")
        with _not_worth_stopping():
            self._jobs.progress(self._ids, done, total)
