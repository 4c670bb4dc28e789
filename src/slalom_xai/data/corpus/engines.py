"""Who explains the parts: this process, several of this machine, or a Ray cluster.

Every engine takes parts and hands on what becomes of them, in whatever order. A worker that dies
is replaced, and its part is explained again.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch

from slalom_xai.data.corpus.folder import CorpusFolder
from slalom_xai.data.corpus.worker import Advance, PartDone, PartWorker
from slalom_xai.errors import InputError, ModelError, SlalomError, one_of, optional_packages
from slalom_xai.options import ExplainOptions
from slalom_xai.system.shards import Shard

ENGINES = ("local", "ray")
MOST_DEATHS = 3  # of workers over the same part
_PATIENCE = 10.0  # seconds for a worker to end by itself


@dataclass(frozen=True)
class Task:
    """What is to be done, by whichever worker.

    Attributes:
        folder: of the corpus.
        options: how texts are explained.
        fingerprint: of the model.
        retry: try the failed texts of parts again, instead of explaining parts that wait.
    """

    folder: CorpusFolder
    options: ExplainOptions
    fingerprint: str
    retry: bool = False

    def worker(self, device: str | None) -> Callable[[int, Advance], PartDone]:
        """Loads the model, and gives what a part is handed to.

        Args:
            device: where to compute; None: as the options say.
        """
        options = self.options if device is None else self.options.replace(device=device)
        worker = PartWorker(self.folder, options, self.fingerprint)
        return worker.retry if self.retry else worker.explain


@dataclass(frozen=True)
class Engine:
    """Who explains the parts.

    Attributes:
        name: "local" or "ray".
        workers: how many; None: one for each GPU, or one.
        address: of a Ray cluster; None: one on this machine, for this run.
    """

    name: str = "local"
    workers: int | None = None
    address: str | None = None

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise one_of("engine", self.name, ENGINES)
        if self.workers is not None and self.workers < 1:
            raise InputError(
                f"workers is {self.workers}: give a number of at least 1, or leave it out"
            )
        if self.address is not None and self.name != "ray":
            raise InputError("the address of a Ray cluster was given: choose the engine ray, too")

    def check(self, options: ExplainOptions, shard: Shard) -> None:
        """Refuses several processes that ask one server: their caps would add up.

        Raises:
            InputError: there would be several.
        """
        several = (self.workers or 1) > 1 or self.name != "local" or shard.count > 1
        if options.remote is not None and several:
            raise InputError(
                "a model behind an API is asked by one process, which has many requests in flight "
                "and keeps to its caps: leave the engine, workers and shard out"
            )

    def done(self, task: Task, parts: Sequence[int], advance: Advance) -> Iterator[PartDone]:
        """Explains parts, and hands on what becomes of them.

        Raises:
            SlalomError: the work cannot go on; parts that are done are kept.
        """
        if task.options.remote is not None:
            return in_this_process(task, parts, advance)
        if self.name == "ray":
            return on_ray(task, parts, advance, self.workers, self.address)
        gpus = 0
        if task.options.device is None and torch.cuda.is_available():
            gpus = torch.cuda.device_count()
        workers = self.workers or max(1, gpus)
        if workers == 1:
            return in_this_process(task, parts, advance)
        devices = [f"cuda:{index % gpus}" if gpus else None for index in range(workers)]
        return in_processes(task, parts, advance, devices)


def in_this_process(task: Task, parts: Sequence[int], advance: Advance) -> Iterator[PartDone]:
    """Explains parts one after the other."""
    work = task.worker(None)
    for part in parts:
        yield work(part, advance)


def in_processes(
    task: Task, parts: Sequence[int], advance: Advance, devices: Sequence[str | None]
) -> Iterator[PartDone]:
    """Explains parts in worker processes.

    Args:
        task: what is to be done.
        parts: the numbers of the parts.
        advance: is told how many texts are done.
        devices: one for each worker; None: as the options say.

    Raises:
        SlalomError: a worker could not go on, or died over the same part again and again.
    """
    left = list(reversed(parts))
    deaths: dict[int, int] = {}
    workers = [_Worker(task, device) for device in devices[: len(parts)]]
    try:
        for worker in workers:
            worker.give(left)
        while any(worker.part is not None for worker in workers):
            for worker in _ready(workers):
                try:
                    message = worker.receive()
                except EOFError:
                    part = worker.part
                    assert part is not None  # it was waited for because it had one
                    deaths[part] = deaths.get(part, 0) + 1
                    _check_deaths(part, deaths[part], worker)
                    left.append(part)
                    worker.start()
                    worker.give(left)
                    continue
                if isinstance(message, PartDone):
                    worker.give(left)
                    yield message
                elif isinstance(message, int):
                    advance(message)
                else:
                    raise message
    finally:
        for worker in workers:
            worker.end()


@dataclass
class _Worker:
    """A process that explains one part at a time.

    Attributes:
        task: what is to be done.
        device: where it computes.
        part: that it has; None: it waits.
    """

    task: Task
    device: str | None
    part: int | None = None
    _process: Any = field(init=False)
    _ours: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.start()

    @property
    def connection(self) -> Connection:
        """Where its messages come in."""
        return self._ours

    @property
    def exit_code(self) -> int | None:
        """How it ended."""
        self._process.join(_PATIENCE)
        code: int | None = self._process.exitcode
        return code

    def start(self) -> None:
        """Starts the process, or another one in its place."""
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_work, args=(self.task, self.device, theirs), daemon=True
        )
        self._process.start()
        theirs.close()  # so that its death is heard of

    def give(self, left: list[int]) -> None:
        """Gives it the next part, if there is one."""
        self.part = left.pop() if left else None
        if self.part is not None:
            with suppress(BrokenPipeError):  # heard of when it is asked for messages
                self._ours.send(self.part)

    def receive(self) -> PartDone | int | SlalomError:
        """What it says.

        Raises:
            EOFError: it is dead.
        """
        try:
            message: PartDone | int | SlalomError = self._ours.recv()
        except OSError as error:
            raise EOFError from error
        return message

    def end(self) -> None:
        """Ends the process; a part that it has begun stays undone."""
        self._ours.close()
        self._process.terminate()
        self._process.join(_PATIENCE)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _ready(workers: Sequence[_Worker]) -> list[_Worker]:
    """Those that have something to say."""
    busy = {worker.connection: worker for worker in workers if worker.part is not None}
    return [busy[ready] for ready in wait(list(busy)) if isinstance(ready, Connection)]


def _check_deaths(part: int, deaths: int, worker: _Worker) -> None:
    if deaths >= MOST_DEATHS:
        raise ModelError(
            f"a worker ended {deaths} times over part {part} (exit code {worker.exit_code}; "
            "-9 is often a lack of memory): use fewer --workers or a smaller --part-texts; "
            "finished parts are kept"
        )


def _work(task: Task, device: str | None, connection: Connection) -> None:
    """What a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    try:
        work = task.worker(device)
        while True:
            part = connection.recv()
            connection.send(work(part, connection.send))
    except (EOFError, BrokenPipeError):
        return  # nobody wants more
    except SlalomError as error:
        connection.send(type(error)(str(error)))
    except Exception as error:
        said = "".join(traceback.format_exception(error)[-3:])
        connection.send(ModelError(f"a worker failed: {' '.join(said.split())}"))


# Explains parts on a Ray cluster, which may be this machine; needs the package ray.
#
# Ray Data hands parts to a pool of actors, each with a model of its own. It starts actors again
# that die, alone or with their node, and gives their parts to others. All of them read and write
# the same folder, so it must lie on a disk that they share.


_TRIES = 10  # of a part: workers and nodes die, but what kills every worker must end the run
_RAY_PATIENCE = 5.0  # seconds for a cluster to be there; Ray itself waits for minutes


class _Actor:
    """What Ray runs: a model, and parts to explain with it."""

    def __init__(self, task: Task) -> None:
        self._work = task.worker(None)

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[int]]:
        done = [self._work(int(part), lambda _texts: None) for part in batch["part"]]
        return {
            "part": [entry.part for entry in done],
            "texts": [entry.texts for entry in done],
            "failed": [entry.failed for entry in done],
            "calls": [entry.calls for entry in done],
        }


def on_ray(
    task: Task,
    parts: Sequence[int],
    advance: Advance,
    workers: int | None,
    address: str | None,
) -> Iterator[PartDone]:
    """Explains parts by actors.

    Args:
        task: what is to be done.
        parts: the numbers of the parts.
        advance: is told how many texts are done.
        workers: how many actors; None: one for each GPU of the cluster, or one.
        address: of a cluster; None: one on this machine, for this run.

    Raises:
        SlalomError: Ray is missing, cannot be reached, or a part failed.
    """
    ray, data = optional_packages(["ray", "ray.data"], "--engine ray", "ray")
    task = _anywhere(task)
    data.DataContext.get_current().enable_progress_bars = False
    with redirect_stdout(sys.stderr):  # where Ray says that a worker died
        _connect(ray, address)
        try:
            gpus = 0
            if task.options.device is None:
                gpus = int(ray.cluster_resources().get("GPU", 0))
            workers = workers or max(1, gpus)
            rows = [{"part": part} for part in parts]
            blocks = data.from_items(rows, override_num_blocks=len(parts))
            done = blocks.map_batches(
                _Actor,
                fn_constructor_args=(task,),
                batch_size=1,
                compute=data.ActorPoolStrategy(size=workers, max_tasks_in_flight_per_actor=1),
                num_cpus=1,
                num_gpus=min(1.0, gpus / workers) or None,
                max_task_retries=_TRIES - 1,
            )
            for row in done.iter_rows():
                entry = PartDone(row["part"], row["texts"], row["failed"], row["calls"])
                advance(entry.texts)
                yield entry
        except ray.exceptions.RayError as error:
            raise _as_ours(error) from error
        finally:
            ray.shutdown()


def _anywhere(task: Task) -> Task:
    """The same task with whole paths, for actors that may start in another folder."""
    options = task.options
    if options.model is not None and Path(options.model).exists():
        options = options.replace(model=str(Path(options.model).resolve()))
    if options.tokenizer is not None and Path(options.tokenizer).exists():
        options = options.replace(tokenizer=str(Path(options.tokenizer).resolve()))
    return replace(task, folder=CorpusFolder(task.folder.path.resolve()), options=options)


def _connect(ray: Any, address: str | None) -> None:
    """Reaches a cluster, or starts one."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
        _check_there(address)
        ray.init(
            address=address or "local",
            logging_level=logging.ERROR,
            log_to_driver=False,
            include_dashboard=False if address is None else None,
            configure_logging=True,
        )
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"the Ray cluster {address or 'of this machine'} cannot be reached ({reason}): "
            "check --ray-address, or leave it out to use this machine"
        ) from error


def _check_there(address: str | None) -> None:
    """Refuses an address with a port where nobody listens."""
    host, _, port = (address or "").rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host, int(port)), _RAY_PATIENCE).close()


def _as_ours(error: Exception) -> SlalomError:
    """An error of an actor in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SlalomError):
            return cause
        cause = cause.__cause__
    reason = " ".join(str(error).split())[-300:]
    return ModelError(f"Ray ended the run ({reason}); finished parts are kept")
