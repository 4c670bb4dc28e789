"""What the addresses of the server share: models, store, limits."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import SlalomError
from slalom_xai.serve import logs
from slalom_xai.serve.guard import Access
from slalom_xai.serve.schema import JobRequest
from slalom_xai.serve.store.file import Known, Results, Store, as_json, question_key
from slalom_xai.serve.store.jobs import Jobs, QueueFull
from slalom_xai.serve.supervisor import ModelState, NoAnswer, Refused, Supervisor
from slalom_xai.serve.work.spec import Limits, WorkerSpec
from slalom_xai.system.sqlite import Damaged

if TYPE_CHECKING:
    from slalom_xai.serve.data import Dataset
    from slalom_xai.serve.folder import AuditFolder, StoredCorpus

log = logging.getLogger("slalom.serve")

_RETRY = 5  # seconds after which a full queue or a loading model may be asked again


class Problem(Exception):
    """A request that cannot be answered: a status for programs, a line for people."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


@dataclass
class Service:
    """Everything behind the addresses.

    Attributes:
        specs: of the models.
        store: with jobs and results.
        access: who may ask.
        limits: on what may be asked.
        workers: processes for each model.
        dataset: None where there is none.
        folder: of a corpus or an audit to show; None where there is none.
        log_texts: whether log lines hold texts.
    """

    specs: list[WorkerSpec]
    store: Store
    access: Access
    limits: Limits = field(default_factory=Limits)
    workers: int = 1
    dataset: Dataset | None = None
    folder: StoredCorpus | AuditFolder | None = None
    log_texts: bool = False

    def __post_init__(self) -> None:
        self.jobs, self.results = Jobs(self.store), Results(self.store)
        self.supervisor = Supervisor(self.specs, self.workers, self.jobs, self.limits)
        self.started = time.time()
        self.counts: Counter[str] = Counter()
        self.watchers = 0
        self._ending = threading.Event()
        self.data_problem: str | None = None

    def start(self) -> None:
        """Starts workers, and the import of the data set; waits for nothing."""
        self.supervisor.start()
        if self.dataset is not None:
            threading.Thread(target=self._import, daemon=True).start()

    def end_soon(self) -> None:
        """Whoever follows a job is let go."""
        self._ending.set()

    def stop(self) -> None:
        """Ends workers; what waits and what they were working on stays in the store."""
        self.end_soon()
        self.supervisor.stop()

    @property
    def ending(self) -> bool:
        """Whether the server is about to stop."""
        return self._ending.is_set()

    def _import(self) -> None:
        assert self.dataset is not None
        try:
            self.dataset.load(self._ending)
        except SlalomError as error:
            log.error("the data set could not be read to its end: %s", error)
            self.data_problem = str(error).replace(str(self.dataset.source), self.dataset.name)
        except Damaged as error:
            log.error("the data set cannot be read: %s", error)
            self.data_problem = str(error)
        except Exception as error:
            log.error("reading the data set failed: %s", logs.trace(error, texts=self.log_texts))
            self.data_problem = "it could not be read to its end; the server's log has more"

    def model(self, name: str) -> ModelState:
        """A model by its name."""
        model = self.supervisor.models.get(name)
        if model is None:
            known = ", ".join(self.supervisor.models)
            raise Problem(404, f"there is no model {name[:100]!r}: choose one of {known}")
        if model.state == "failed":
            raise Problem(409, f"the model {model.name} cannot be used: {model.message}")
        return model

    def spec_of(self, result: Known) -> WorkerSpec | None:
        """Of the model that a result was made with; None where this server does not have it.

        Raises:
            Problem: it may be one that is still being loaded.
        """
        models = self.supervisor.models
        for spec in sorted(self.specs, key=lambda spec: spec.name != result.model):
            if models[spec.name].facts.get("fingerprint") == result.fingerprint:
                return spec
        loading = [name for name, model in models.items() if model.state == "loading"]
        if loading:
            raise Problem(503, f"the model {loading[0]} is being loaded: try again soon", _RETRY)
        return None

    def ask(self, request: JobRequest) -> tuple[int, bool]:
        """Puts a question into the queue; its job's id, and whether the answer was known."""
        model = self.model(request.model)
        self._check(request, model)
        given = request.model_dump()
        text, text_pair = given.pop("text"), given.pop("text_pair")
        name = given.pop("model")
        settings = as_json(given)
        asked = model.known
        if asked.fingerprint is not None:
            key = question_key(text, text_pair, asked.fingerprint, settings)
            known = self.results.known(key)
            if known is not None:
                self.counts["answered from the store"] += 1
                return self.jobs.add_answered(asked, text, text_pair, settings, known), True
        try:
            job = self.jobs.add(asked, text, text_pair, settings, most=self.limits.queue)
        except QueueFull as error:
            self.counts["refused"] += 1
            raise Problem(
                503, f"{self.limits.queue} jobs wait for {name} already: try again later", _RETRY
            ) from error
        shown = f": {json.dumps(text)}" if self.log_texts else ""
        log.info(
            "job %d asked: %s, %s, %d characters%s", job, name, request.method, len(text), shown
        )
        self.supervisor.wake(name)
        return job, False

    def check_texts(self, text: str, text_pair: str | None) -> None:
        """Refuses texts that are empty or longer than this server takes."""
        for given in (text, text_pair):
            if given is not None and len(given) > self.limits.text:
                raise Problem(
                    413,
                    f"the text has {len(given):,} characters, and this server takes "
                    f"{self.limits.text:,}: give a shorter one",
                )
        if not text.strip():
            raise Problem(400, "the text is empty: give a text with at least one word")

    def _check(self, request: JobRequest, model: ModelState) -> None:
        self.check_texts(request.text, request.text_pair)
        if request.budget is not None and request.budget > self.limits.budget:
            raise Problem(
                400,
                f"a budget of {request.budget:,} calls was given, and this server allows "
                f"{self.limits.budget:,}: give a smaller one",
            )
        methods = model.facts.get("methods")
        if methods is not None and request.method not in methods:
            raise Problem(400, f"unknown method {request.method!r}: see api/methods")
        labels = model.facts.get("labels")
        if labels is not None and request.target is not None:
            numbers = [str(number) for number in range(len(labels))]
            if request.target not in [*labels, *numbers]:
                raise Problem(
                    400, f"unknown class {request.target!r}: choose one of {', '.join(labels)}"
                )

    async def quickly(self, model: str | None, kind: str, body: dict[str, Any]) -> Any:
        """A worker's answer to a quick question."""
        try:
            return await self.supervisor.ask(model, kind, body)
        except Refused as error:
            raise Problem(400, str(error)) from error
        except NoAnswer as error:
            raise Problem(503, str(error), _RETRY) from error
