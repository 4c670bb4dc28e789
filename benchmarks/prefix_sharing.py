"""Time of the forward passes of a decoder with and without its rows borrowing the beginning of the text.

    OMP_NUM_THREADS=1 python benchmarks/prefix_sharing.py --layers 2 --rows 2000

Three readings of the same rows, taken in turns: as the package asks any model (sorted by length,
padded, masked), the same without the mask, which a causal model padded on the right does not need,
and with borrowing. For each: the best of the turns; on a CPU in seconds of processor time, which
others on the machine change less.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
import transformers
from numpy.typing import NDArray

from slalom_xai.models.prefix import PrefixCache
from slalom_xai.queries.shared_batches import SharedBatch, plan_batches

DESIGNS = {  # name: fewest and most deletions, tokens at the beginning that are never deleted
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
    columns = np.arange(places.shape[1])
    differs = (places != columns) | (columns >= lengths[:, None])
    return np.where(differs.any(axis=1), differs.argmax(axis=1), lengths).astype(np.int64)


def design(
    rows: int, tokens: int, fewest: int, most: float | None, fixed: float
) -> tuple[np.ndarray, np.ndarray]:
    """Places (rows, tokens) that stay, filled up with 0, and how many they are."""
    rng = np.random.default_rng(0)
    start = int(fixed * tokens)
    top = tokens - start - 1 if most is None else int(most * tokens) - 1 if most < 1 else int(most)
    gone = rng.random((rows, tokens))
    gone[:, :start] = 2
    order = gone.argsort(axis=1)
    counts = rng.integers(fewest, top + 1, rows)
    keep = np.ones((rows, tokens), bool)
    for row, count in enumerate(counts):
        keep[row, order[row, :count]] = False
    places = np.zeros((rows, tokens), np.int64)
    for row in range(rows):
        found = np.flatnonzero(keep[row])
        places[row, : len(found)] = found
    return places, keep.sum(axis=1)


def model(
    kind: str, layers: int, width: int, tokens: int, dtype: torch.dtype, device: str
) -> torch.nn.Module:
    torch.manual_seed(0)
    size = {
        "num_hidden_layers": layers,
        "num_attention_heads": width // 64,
        "hidden_size": width,
        "vocab_size": 8192,
        "pad_token_id": 0,
    }
    if kind == "gpt2":
        config = transformers.GPT2Config(n_positions=tokens, bos_token_id=1, eos_token_id=1, **size)
        return transformers.GPT2ForSequenceClassification(config).eval().to(device, dtype)
    config = transformers.LlamaConfig(
        max_position_embeddings=tokens,
        intermediate_size=4 * width,
        num_key_value_heads=width // 64,
        **size,
    )
    return transformers.LlamaForSequenceClassification(config).eval().to(device, dtype)


def measured(
    turns: int, ways: dict[str, Callable[[], torch.Tensor]], device: str
) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    seconds = dict.fromkeys(ways, np.inf)
    clock = time.process_time if device == "cpu" else time.perf_counter
    answers = {}
    for _ in range(turns):
        for name, way in ways.items():
            start = clock()
            answers[name] = way().cpu()
            if device != "cpu":
                torch.cuda.synchronize()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds, answers


def compare(network: torch.nn.Module, name: str, options: argparse.Namespace) -> str:
    places, lengths = design(options.rows, options.tokens, *DESIGNS[name])
    ids = torch.randint(2, 8192, (options.tokens,), generator=torch.Generator().manual_seed(0))
    shared = shared_lengths(places, lengths)
    plan = plan_batches(shared, lengths, options.batch_tokens, options.tokens)
    alone = plan_batches(np.zeros_like(shared), lengths, options.batch_tokens, 0)
    on_device = torch.from_numpy(places).to(options.device)
    counts = torch.from_numpy(lengths).to(options.device)
    text = ids.to(options.device)
    cache = PrefixCache(network)
    assert cache.keep(ids.tolist()), "the model does not share"

    def cut(batch: SharedBatch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(batch.rows).to(options.device)
        return (
            rows,
            text[on_device[rows, batch.shared : batch.shared + batch.width]],
            counts[rows] - batch.shared,
        )

    def plain() -> torch.Tensor:
        result = torch.empty(len(lengths), 2, device=options.device)
        for batch in alone.batches:
            rows, tokens, count = cut(batch)
            mask = torch.arange(tokens.shape[1], device=options.device) < count[:, None]
            with torch.inference_mode():
                result[rows] = network(
                    input_ids=tokens.where(mask, 0), attention_mask=mask.long(), use_cache=False
                ).logits.float()
        return result

    def by(batches: tuple[SharedBatch, ...]) -> torch.Tensor:
        cache.keep(ids.tolist())
        result = torch.empty(len(lengths), 2, device=options.device)
        for batch in batches:
            rows, tokens, count = cut(batch)
            result[rows] = cache.answer(batch.shared, tokens, count)
        return result

    ways = {
        "plain": plain,
        "maskless": lambda: by(alone.batches),
        "shared": lambda: by(plan.batches),
    }
    seconds, answers = measured(options.turns, ways, options.device)
    off = (answers["shared"] - answers["plain"]).abs().max() / (
        answers["plain"].max() - answers["plain"].min()
    )
    return (
        f"{name:36} {plan.saved:6.1%} {'yes' if plan.worth else 'no':5} {len(alone.batches):4} "
        f"{len(plan.batches):4} "
        f"{seconds['plain']:8.2f} {seconds['maskless']:8.2f} {seconds['shared']:8.2f} "
        f"{seconds['shared'] / seconds['plain']:7.3f} "
        f"{seconds['shared'] / seconds['maskless']:8.3f} {off:9.1e}"
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
