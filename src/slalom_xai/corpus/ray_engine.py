"""Explains parts on a Ray cluster, which may be this machine; needs the package ray.

Ray Data hands parts to a pool of actors, each with a model of its own. It starts actors again that
die, alone or with their node, and gives their parts to others. All of them read and write the same
folder, so it must lie on a disk that they share.
"""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_xai.corpus.folder import CorpusFolder
from slalom_xai.corpus.worker import Advance, PartDone
from slalom_xai.errors import ModelError, SlalomError, optional_packages

if TYPE_CHECKING:
    from slalom_xai.corpus.engines import Task

_TRIES = 10  # of a part: workers and nodes die, but what kills every worker must end the run
_PATIENCE = 5.0  # seconds for a cluster to be there; Ray itself waits for minutes


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
        socket.create_connection((host, int(port)), _PATIENCE).close()


def _as_ours(error: Exception) -> SlalomError:
    """An error of an actor in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SlalomError):
            return cause
        cause = cause.__cause__
    reason = " ".join(str(error).split())[-300:]
    return ModelError(f"Ray ended the run ({reason}); finished parts are kept")
