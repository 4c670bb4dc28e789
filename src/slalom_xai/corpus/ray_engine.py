"""Explains parts on a Ray cluster, which may be this machine; needs the package ray.

Ray Data hands parts to a pool of actors, each with a model of its own. It starts actors again that
die, alone or with their node, and gives their parts to others. All of them read and write the same
folder, so it must lie on a disk that they share.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from slalom_xai.corpus.folder import CorpusFolder
from slalom_xai.corpus.worker import Advance, PartDone
from slalom_xai.errors import ModelError, SlalomError, optional_packages

if TYPE_CHECKING:
    from slalom_xai.corpus.engines import Task


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
    workers: int,
    gpus: float,
    address: str | None,
) -> Iterator[PartDone]:
    """Explains parts by actors.

    Args:
        task: what is to be done.
        parts: the numbers of the parts.
        advance: is told how many texts are done.
        workers: how many actors.
        gpus: of each actor.
        address: of a cluster; None: one on this machine, for this run.

    Raises:
        SlalomError: Ray is missing, cannot be reached, or a part failed.
    """
    ray, data = optional_packages(["ray", "ray.data"], "--engine ray", "ray")
    _connect(ray, address)
    task = replace(task, folder=CorpusFolder(task.folder.path.resolve()))
    context = data.DataContext.get_current()
    context.enable_progress_bars = False
    try:
        rows = data.from_items([{"part": part} for part in parts], override_num_blocks=len(parts))
        done = rows.map_batches(
            _Actor,
            fn_constructor_args=(task,),
            batch_size=1,
            compute=data.ActorPoolStrategy(size=workers),
            num_cpus=1,
            num_gpus=gpus or None,
        )
        for row in done.iter_rows():
            entry = PartDone(row["part"], row["texts"], row["failed"], row["calls"])
            advance(entry.texts)
            yield entry
    except ray.exceptions.RayError as error:
        raise _as_ours(error) from error
    finally:
        ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    """Reaches a cluster, or starts one."""
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # what matters is raised, too
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    try:
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


def _as_ours(error: Exception) -> SlalomError:
    """An error of an actor in one line."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, SlalomError):
            return cause
        cause = cause.__cause__
    reason = " ".join(str(error).split())[-300:]
    return ModelError(f"Ray ended the run ({reason}); finished parts are kept")
