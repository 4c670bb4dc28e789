"""Time of a decoder's forward passes with and without rows that borrow the text's beginning.

    OMP_NUM_THREADS=1 python -m research.benchmarks.prefix_sharing --layers 2 --rows 2000

Three readings of the same rows, taken in turns: as the package asks any model (sorted by length,
padded, masked), the same without the mask, which a causal model padded on the right does not need,
and with borrowing. For each: the best of the turns; on a CPU in seconds of processor time, which
others on the machine change less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from slalom_xai.models.prefix import PrefixCache
from slalom_xai.queries.cutting import SharedBatch, plan_batches

transformers: Any = import_module("transformers")  # its own types say less than Any

MODEL_VOCABULARY = 8192  # tokens of the made model
HEAD_WIDTH = 64  # of each attention head
DESIGNS: dict[
    str, tuple[int, float | None, float]
] = {  # name: fewest and most deletions, tokens at the beginning that are never deleted
    "1-5 deleted": (1, 5, 0),
    "1-10 deleted": (1, 10, 0),
    "1-20 deleted": (1, 20, 0),
    "1..n-1 deleted": (1, None, 0),
    "1..n/2 deleted behind a fixed half": (1, 0.5, 0.5),
    "1-5 deleted behind a fixed half": (1, 5, 0.5),
}


def shared_lengths(places: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many tokens each row has in common with the beginning of its text.

    Args:
        places: where each of a row's tokens stands in the text, filled up with anything on the
            right, (rows, width).
        lengths: tokens in each row, (rows,).
    """
    positions = np.arange(places.shape[1])
    differs = (places != positions) | (positions >= lengths[:, None])
    return np.where(differs.any(axis=1), differs.argmax(axis=1), lengths).astype(np.int64)


def design(
    rows: int, tokens: int, fewest: int, most: float | None, fixed: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Places (rows, tokens) that stay, filled up with 0, and how many they are, (rows,).

    Args:
        rows: how many.
        tokens: in the text.
        fewest: deletions.
        most: deletions, or below 1 the share of the text; None: all that may be deleted but one.
        fixed: the share of the text at its beginning that is never deleted.
    """
    rng = np.random.default_rng(0)
    start = int(fixed * tokens)
    gone = rng.random((rows, tokens))
    gone[:, :start] = 2
    order = gone.argsort(axis=1)
    counts = rng.integers(fewest, _most_deleted(tokens, start, most) + 1, rows)
    keep = np.ones((rows, tokens), bool)
    for row, count in enumerate(counts):
        keep[row, order[row, :count]] = False
    places = np.zeros((rows, tokens), np.int64)
    for row in range(rows):
        kept = np.flatnonzero(keep[row])
        places[row, : len(kept)] = kept
    return places, keep.sum(axis=1)


def _most_deleted(tokens: int, start: int, most: float | None) -> int:
    if most is None:
        return tokens - start - 1
    if most < 1:
        return int(most * tokens) - 1
    return int(most)


def model(
    kind: str, layers: int, width: int, tokens: int, dtype: torch.dtype, device: str
) -> torch.nn.Module:
    """A decoder with random weights."""
    torch.manual_seed(0)
    heads = width // HEAD_WIDTH
    size = {
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "hidden_size": width,
        "vocab_size": MODEL_VOCABULARY,
        "pad_token_id": 0,
    }
    made: torch.nn.Module
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=tokens, bos_token_id=1, eos_token_id=1, **size)
        made = transformers.GPT2ForSequenceClassification(config)
    else:
        config = transformers.LlamaConfig(
            max_position_embeddings=tokens,
            intermediate_size=4 * width,
            num_key_value_heads=heads,
            **size,
        )
        made = transformers.LlamaForSequenceClassification(config)
    return made.eval().to(device, dtype)


def measured(
    turns: int, ways: dict[str, Callable[[], torch.Tensor]], device: str
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    """The best time of each way over the turns, and its answers."""
    seconds = dict.fromkeys(ways, np.inf)
    clock = time.perf_counter
    if device == "cpu":
        clock = time.process_time
    answers = {}
    for _ in range(turns):
        for name, way in ways.items():
            start = clock()
            answers[name] = way().cpu()
            if device != "cpu":
                torch.cuda.synchronize()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds, answers


class Part(NamedTuple):
    """A batch: which rows, their token ids (rows, width), and how many of these count, (rows,)."""

    rows: torch.Tensor
    tokens: torch.Tensor
    lengths: torch.Tensor


class DesignRows:
    """The rows of one design on the device, and the ways to ask a model about them.

    Args:
        network: a decoder.
        places: (rows, tokens), the places that stay, filled up with 0.
        lengths: (rows,), how many they are.
        tokens: in the text.
        device: where the network is.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        places: NDArray[np.int64],
        lengths: NDArray[np.int64],
        tokens: int,
        device: str,
    ) -> None:
        self._network = network
        self._device = device
        self._places = torch.from_numpy(places).to(device)
        self._lengths = torch.from_numpy(lengths).to(device)
        draw = torch.Generator().manual_seed(0)
        ids = torch.randint(2, MODEL_VOCABULARY, (tokens,), generator=draw)
        self._text = ids.to(device)
        self._ids = ids.tolist()
        self._cache = PrefixCache(network)
        assert self._cache.keep(self._ids), "the model does not share"

    def masked(self, batches: tuple[SharedBatch, ...]) -> torch.Tensor:
        """Answers (rows, 2) with padding and a mask, as any model is asked."""
        answers = torch.empty(len(self._lengths), 2, device=self._device)
        for batch in batches:
            part = self._cut(batch)
            width = torch.arange(part.tokens.shape[1], device=self._device)
            mask = width < part.lengths[:, None]
            ids = part.tokens.where(mask, 0)
            with torch.inference_mode():
                output = self._network(input_ids=ids, attention_mask=mask.long(), use_cache=False)
            answers[part.rows] = output.logits.float()
        return answers

    def borrowed(self, batches: tuple[SharedBatch, ...]) -> torch.Tensor:
        """Answers (rows, 2) without a mask; rows borrow what their batch shares with the text."""
        self._cache.keep(self._ids)
        answers = torch.empty(len(self._lengths), 2, device=self._device)
        for batch in batches:
            part = self._cut(batch)
            answers[part.rows] = self._cache.answer(batch.shared, part.tokens, part.lengths)
        return answers

    def _cut(self, batch: SharedBatch) -> Part:
        """What a batch asks, without what it shares."""
        rows = torch.from_numpy(batch.rows).to(self._device)
        places = self._places[rows, batch.shared : batch.shared + batch.width]
        return Part(rows, self._text[places], self._lengths[rows] - batch.shared)


def compare(network: torch.nn.Module, name: str, options: argparse.Namespace) -> str:
    """Times the three ways on one design; a line of the table."""
    places, lengths = design(options.rows, options.tokens, *DESIGNS[name])
    shared = shared_lengths(places, lengths)
    plan = plan_batches(shared, lengths, options.batch_tokens, options.tokens)
    alone = plan_batches(np.zeros_like(shared), lengths, options.batch_tokens, 0)
    rows = DesignRows(network, places, lengths, options.tokens, options.device)
    ways = {
        "plain": lambda: rows.masked(alone.batches),
        "maskless": lambda: rows.borrowed(alone.batches),
        "shared": lambda: rows.borrowed(plan.batches),
    }
    seconds, answers = measured(options.turns, ways, options.device)
    spread = answers["plain"].max() - answers["plain"].min()
    off = (answers["shared"] - answers["plain"]).abs().max() / spread
    worth = {True: "yes", False: "no"}[plan.pays]
    plain, maskless, borrowed = (seconds[way] for way in ways)
    return (
        f"{name:36} {plan.saved:6.1%} {worth:5} {len(alone.batches):4} {len(plan.batches):4} "
        f"{plain:8.2f} {maskless:8.2f} {borrowed:8.2f} "
        f"{borrowed / plain:7.3f} {borrowed / maskless:8.3f} {off:9.1e}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["gpt2", "llama"], default="gpt2")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--batch-tokens", type=int, default=8192)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--designs", nargs="*", default=list(DESIGNS))
    options = parser.parse_args()
    network = model(
        options.kind,
        options.layers,
        options.width,
        options.tokens,
        getattr(torch, options.dtype),
        options.device,
    )
    versions = (
        f"transformers {transformers.__version__}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} thread(s)"
    )
    print(
        f"{options.kind} {options.layers}x{options.width} {options.dtype} {options.device}, "
        f"{options.rows} rows of {options.tokens}; {versions}"
    )
    print(
        f"{'design':36} {'saved':>6} worth  batches   plain s   no mask   shared  /plain /no mask "
        " rel. off"
    )
    for name in options.designs:
        print(compare(network, name, options), flush=True)


if __name__ == "__main__":
    main()
