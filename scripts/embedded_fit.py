"""Training on rows of any length: batches, log odds, calibration."""

from __future__ import annotations

import random
import time
from typing import Any

import torch
from embedded_data import LIMIT

Example = tuple[list[int], int, float]  # token ids, label (-1: none), the teacher's log odds

ANSWER_TOKENS = 131072  # padded tokens of a batch that is only asked, not trained on
WARM_UP = 0.1  # the share of training in which the rate rises
SPARE_STEPS = 64  # of the schedule: batches are drawn anew each epoch and may be a few more
JITTER = 16  # tokens: how far rows of a batch may differ in length, so that batches vary


def batches(lengths: list[int], tokens: int, rng: random.Random | None) -> list[list[int]]:
    """Indices grouped by similar length, at most ``tokens`` padded tokens a batch."""
    keys = [float(length) for length in lengths]
    if rng:
        keys = [length + rng.uniform(0, JITTER) for length in lengths]
    order = sorted(range(len(lengths)), key=lambda index: keys[index])
    groups: list[list[int]] = [[]]
    for index in order:
        if groups[-1] and (len(groups[-1]) + 1) * (lengths[index] + JITTER) > tokens:
            groups.append([])
        groups[-1].append(index)
    if rng:
        rng.shuffle(groups)
    return groups


class Ragged:
    """Token lists on the device as one flat tensor, so that a batch costs one gather."""

    def __init__(self, rows: list[list[int]], device: str) -> None:
        self.lengths = [len(row) for row in rows]
        self.flat = torch.tensor(
            [token for row in rows for token in row] + [0] * LIMIT, dtype=torch.int32, device=device
        )
        self.size = torch.tensor(self.lengths, device=device)
        self.start = self.size.cumsum(0) - self.size

    def batch(self, indices: list[int]) -> dict[str, torch.Tensor]:
        """Model inputs for some rows, padded to the longest."""
        chosen = torch.tensor(indices, device=self.flat.device)
        place = torch.arange(max(self.lengths[i] for i in indices), device=self.flat.device)
        mask = place[None] < self.size[chosen, None]
        ids = self.flat[self.start[chosen, None] + place[None]].long() * mask
        return {"input_ids": ids, "attention_mask": mask.long()}


@torch.inference_mode()
def log_odds(model: torch.nn.Module, rows: list[list[int]], device: str) -> torch.Tensor:
    """The model's log odds (m,) of the second class."""
    model.eval()
    result = torch.zeros(len(rows))
    ragged = Ragged(rows, device)
    for group in batches(ragged.lengths, ANSWER_TOKENS, None):
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            logits = model(**ragged.batch(group)).logits.float()
        result[group] = (logits[:, 1] - logits[:, 0]).cpu()
    return result


def stretched(odds: torch.Tensor) -> torch.Tensor:
    """Undoes a saturating output: log odds near the bound keep growing with the evidence."""
    bound = 1.02 * float(odds.abs().max())
    return bound * torch.atanh(odds / bound)


@torch.no_grad()
def calibrate(model: Any, rows: list[list[int]], labels: list[int], device: str) -> float:
    """Scales the head to the least cross-entropy on held-out reviews; returns the factor."""
    odds, wanted = log_odds(model, rows, device), torch.tensor(labels).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits
    scales = [0.02 * step for step in range(1, 101)]
    factor = min(scales, key=lambda scale: float(loss(scale * odds, wanted)))
    for parameter in model.classifier.parameters():
        parameter.mul_(factor)
    return factor


def accuracy(
    model: torch.nn.Module, rows: list[list[int]], labels: list[int], device: str
) -> float:
    """The share of rows that the model classifies rightly."""
    said = (log_odds(model, rows, device) > 0).long()
    return float((said == torch.tensor(labels)).float().mean())


def train(
    model: torch.nn.Module,
    data: list[Example],
    dev: tuple[list[list[int]], list[int]],
    *,
    epochs: int,
    rate: float,
    tokens: int,
    device: str,
) -> torch.nn.Module:
    """AdamW with a linear warm-up and decay; keeps the weights of the best epoch on ``dev``."""
    model.to(device)
    rng = random.Random(0)
    ragged = Ragged([ids for ids, _, _ in data], device)
    labels = torch.tensor([label for _, label, _ in data], device=device).float()
    taught = torch.tensor([odds for _, _, odds in data], device=device)
    steps = epochs * len(batches(ragged.lengths, tokens, rng))
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=rate, weight_decay=0.01, fused=device == "cuda"
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer,
        rate,
        total_steps=steps + SPARE_STEPS,
        pct_start=WARM_UP,
        anneal_strategy="linear",
    )
    best, best_state = 0.0, None
    for epoch in range(epochs):
        model.train()
        start = time.time()
        for group in batches(ragged.lengths, tokens, rng):
            with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
                logits = model(**ragged.batch(group)).logits.float()
            loss = _loss(logits[:, 1] - logits[:, 0], labels[group], taught[group])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        score = accuracy(model, *dev, device)
        print(
            f"epoch {epoch + 1}/{epochs}: dev accuracy {score:.4f}, {time.time() - start:.1f} s",
            flush=True,
        )
        if score > best:
            weights = model.state_dict()
            best, best_state = score, {name: one.detach().clone() for name, one in weights.items()}
    model.load_state_dict(best_state)
    return model


def _loss(odds: torch.Tensor, label: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Cross-entropy to labels and distance to the teacher's log odds, where there are any; (m,)."""
    to_label = torch.nn.functional.binary_cross_entropy_with_logits(
        odds, label.clamp(min=0), reduction="none"
    )
    to_teacher = torch.nn.functional.smooth_l1_loss(odds, teacher.nan_to_num(), reduction="none")
    return (to_label * (label >= 0)).mean() + (to_teacher * ~teacher.isnan()).mean()
