"""What a worker does with jobs: explains them, shows rounds, keeps results."""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from slalom_xai.app.jobs import Jobs, Task
from slalom_xai.app.limits import Limits
from slalom_xai.app.results import Result, Results, as_json, question_key
from slalom_xai.app.store import is_full
from slalom_xai.errors import SlalomError
from slalom_xai.explainer import Explainer
from slalom_xai.explanation import Explanation
from slalom_xai.explanation.saving import scores_to_dict
from slalom_xai.models import TextModel
from slalom_xai.progress import shown_by
from slalom_xai.reports.terminal import in_one_line
from slalom_xai.reports.view import explanation_data

log = logging.getLogger("slalom.worker")

_PAUSE = 0.25  # seconds between two notes of how far the work is
_ROOM = 5.0  # seconds between two tries to write to a full disk
_MOST_EXPLAINERS = 16  # that are kept, one for each combination of settings
_TRIES = 12  # to write a result to a full disk


class Stopped(Exception):
    """The work was cancelled, took too long, or the worker must end."""


class JobWorker:
    """Explains the jobs of one model.

    Args:
        name: of the model on this server.
        model: as loaded.
        fingerprint: of its weights.
        owner: names this worker in the store.
        jobs: where jobs are found.
        results: where results are kept.
        limits: of the server.
        must_end: whether the worker was told to stop.
        explained: is told of each new result, for whoever lists texts with their fidelity.
    """

    def __init__(
        self,
        name: str,
        model: TextModel,
        fingerprint: str,
        owner: str,
        jobs: Jobs,
        results: Results,
        limits: Limits,
        must_end: Callable[[], bool],
        explained: Callable[[Task, Result], None] = lambda task, result: None,
    ) -> None:
        self._name, self._model, self._fingerprint = name, model, fingerprint
        self._owner, self._jobs, self._results = owner, jobs, results
        self._limits, self._must_end, self._explained = limits, must_end, explained
        self._explainers: dict[str, Explainer] = {}

    def work(self) -> bool:
        """Takes jobs that wait and explains them; False where there were none."""
        tasks = self._jobs.claim(self._name, self._owner, self._limits.together)
        if not tasks:
            return False
        new = [task for task in tasks if not self._answered(task)]
        if new:
            self._explain(_distinct(new))
        for task in new:
            self._answered(task)  # a second job with the same text
        return True

    def _key(self, task: Task) -> str:
        return question_key(task.text, task.text_pair, self._fingerprint, task.settings)

    def _answered(self, task: Task) -> bool:
        """Finishes a job whose answer is known."""
        result = self._results.known(self._key(task))
        if result is None:
            return False
        if (self._jobs.find(task.id) or {}).get("state") == "running":
            self._jobs.finish_known(task.id, result)
        return True

    def _explain(self, tasks: Sequence[Task]) -> None:
        """Explains jobs together; where that fails, one by one, so that each has its own error."""
        started = time.monotonic()
        try:
            explanations = self._explanations(tasks)
        except Stopped as error:
            self._stop(tasks, str(error))
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
        seconds = self._limits.seconds * len(tasks)
        watch = _Watch([task.id for task in tasks], self._jobs, seconds, self._must_end)
        with shown_by(watch):
            if len(tasks) == 1:
                return [explainer(tasks[0].text, tasks[0].text_pair)]
            pairs = None
            if tasks[0].text_pair is not None:
                pairs = [task.text_pair or "" for task in tasks]
            return explainer([task.text for task in tasks], pairs)

    def _explainer(self, settings: str) -> Explainer:
        if settings not in self._explainers:
            while len(self._explainers) >= _MOST_EXPLAINERS:
                self._explainers.pop(next(iter(self._explainers)))
            given: dict[str, Any] = json.loads(settings)
            seed = given.pop("seed")
            self._explainers[settings] = Explainer(self._model, random_state=seed, **given)
        return self._explainers[settings]

    def _show(self, tasks: Sequence[Task], explanation: Explanation) -> None:
        """Shows a preliminary result to whoever watches its job."""
        view, summary = as_json(explanation_data(explanation)), in_one_line(explanation)
        for task in tasks:
            if (task.text, task.text_pair) == (explanation.text, explanation.text_pair):
                self._jobs.show_round(task.id, view, summary, explanation.prediction)

    def _finish(self, task: Task, explanation: Explanation, seconds: float) -> None:
        fidelity = None
        if explanation.fidelity is not None:
            fidelity = explanation.fidelity.wide.r2
        result = Result(
            self._key(task),
            self._name,
            self._fingerprint,
            task.settings,
            explanation.prediction,
            fidelity,
            as_json({**explanation.to_dict(), **scores_to_dict(explanation)}),
            as_json(explanation_data(explanation)),
        )
        summary = in_one_line(explanation)
        self._keep(partial(self._jobs.finish, task.id, result, summary, explanation.calls))
        log.info(
            "job %d done: %s, %s, %d units, %d calls, %.1f s",
            task.id,
            self._name,
            explanation.method,
            len(explanation.units),
            explanation.calls,
            seconds,
        )
        self._explained(task, result)

    def _keep(self, write: Callable[[], None]) -> None:
        """Writes a result; where the disk is full, waits for room."""
        for left in reversed(range(_TRIES)):
            try:
                return write()
            except sqlite3.OperationalError as error:
                if not is_full(error) or not left or self._must_end():
                    raise
                log.error("the disk of the store is full: make room, the result waits in memory")
                time.sleep(_ROOM)

    def _stop(self, tasks: Sequence[Task], reason: str) -> None:
        """Ends jobs whose work was stopped; where the worker must end, they go back to the queue."""
        if self._must_end():
            return
        cancelled = self._jobs.cancelled([task.id for task in tasks])
        left = [task for task in tasks if task.id not in cancelled]
        for task in tasks:
            if task.id in cancelled:
                self._jobs.end(task.id, "cancelled")
                log.info("job %d cancelled", task.id)
        if cancelled and left:
            self._explain(left)
        else:
            for task in left:
                self._fail(task, Stopped(reason))

    def _fail(self, task: Task, error: Exception) -> None:
        if isinstance(error, (SlalomError, Stopped)):
            message = str(error)
            log.info("job %d failed: %s", task.id, type(error).__name__)
        else:
            message = "an error in slalom-xai itself; the server's log has more"
            log.exception("job %d failed", task.id)
        self._jobs.end(task.id, "failed", message)


def _distinct(tasks: Sequence[Task]) -> list[Task]:
    """One job for each text."""
    by_text: dict[tuple[str, str | None], Task] = {}
    for task in tasks:
        by_text.setdefault((task.text, task.text_pair), task)
    return list(by_text.values())


class _Watch:
    """Notes how far jobs are, and ends the work where it must end."""

    def __init__(
        self, ids: Sequence[int], jobs: Jobs, seconds: float, must_end: Callable[[], bool]
    ) -> None:
        self._ids, self._jobs, self._must_end = ids, jobs, must_end
        self._seconds, self._started = seconds, time.monotonic()
        self._noted = 0.0

    def show(self, done: int, total: int, label: str) -> None:
        """As a progress bar's display does."""
        now = time.monotonic()
        if now - self._noted < _PAUSE:
            return
        self._noted = now
        if self._must_end():
            raise Stopped("the worker was told to end")
        if now - self._started > self._seconds:
            raise Stopped(
                f"the work took longer than the {self._seconds:.0f} seconds that a job has: "
                "give a shorter text, a larger granularity or a smaller budget"
            )
        self._jobs.progress(self._ids, done, total)
        if self._jobs.cancelled(self._ids):
            raise Stopped("cancelled")
