"""What a run of the benchmark was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SpeedOptions:
    """Options that all parts share.

    Attributes:
        models: names or folders; empty: what suits the part and the device.
        methods: names, for the part with equal numbers of calls; empty: all that fit the device.
        calls: model calls per text.
        tokens: length of a text.
        texts: how many texts the time to an error is averaged over.
        data: a table of texts; None: made ones.
        repeats: measurements of each.
        device: "cpu" or "cuda".
        threads: of torch on a CPU; 0: its own choice.
        axes: what grows: some of calls, classes, texts and tokens.
        memory: whether to measure memory, which on a CPU takes a process for each method.
    """

    models: tuple[str, ...]
    methods: tuple[str, ...]
    calls: tuple[int, ...]
    tokens: int
    texts: int
    data: Path | None
    repeats: int
    device: str
    threads: int
    axes: tuple[str, ...]
    memory: bool
