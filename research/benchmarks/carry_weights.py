r"""Pretrained weights in a form that is small enough to be carried to another machine.

    python -m research.benchmarks.carry_weights pack FOLDER OUT.npz
    python -m research.benchmarks.carry_weights unpack IN.npz FOLDER

Each row of a matrix is rounded to 8 bits and a factor, which takes a quarter of the room. The other
files of the folder (tokenizer, configuration) go along. What is unpacked is a folder as before, of
rounded weights.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

LARGEST_FILE = 2_000_000  # bytes of a file that goes along


def pack(folder: Path, out: Path) -> None:
    """Writes one file with all of the folder that a model is loaded from."""
    stored: dict[str, np.ndarray] = {}
    for name, weights in load_file(folder / "model.safetensors").items():
        if weights.ndim < 2:
            stored[f"plain/{name}"] = weights
            continue
        factors = np.abs(weights).max(axis=-1, keepdims=True) / 127
        factors = np.maximum(factors, 1e-12).astype(np.float32)
        stored[f"rounded/{name}"] = np.round(weights / factors).astype(np.int8)
        stored[f"factors/{name}"] = factors
    for file in folder.iterdir():
        small = file.is_file() and file.stat().st_size < LARGEST_FILE
        if small and file.name != "model.safetensors":
            stored[f"file/{file.name}"] = np.frombuffer(file.read_bytes(), np.uint8)
    np.savez_compressed(out, **stored)  # type: ignore[arg-type]


def unpack(packed: Path, folder: Path) -> None:
    """Writes the folder that a model is loaded from."""
    folder.mkdir(parents=True)
    weights = {}
    with np.load(packed) as stored:
        for key in stored.files:
            kind, _, name = key.partition("/")
            if kind == "file":
                (folder / name).write_bytes(stored[key].tobytes())
            elif kind == "plain":
                weights[name] = stored[key]
            elif kind == "rounded":
                weights[name] = stored[key].astype(np.float32) * stored[f"factors/{name}"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def main() -> None:
    """Runs what the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=["pack", "unpack"])
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    (pack if given.action == "pack" else unpack)(given.source, given.out)


if __name__ == "__main__":
    main()
