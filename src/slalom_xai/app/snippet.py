"""Python that repeats an explanation."""

from __future__ import annotations

from typing import Any

from slalom_xai.app.work.spec import WorkerSpec

_DEFAULTS = {
    "method": "slalom",
    "granularity": "word",
    "target": None,
    "removal": "auto",
    "budget": None,
    "seed": 0,
}


def snippet(file: dict[str, Any], settings: dict[str, Any], spec: WorkerSpec | None) -> str:
    """A short program.

    Args:
        file: the saved explanation.
        settings: as the job had them.
        spec: of the model; None where this server no longer has it.
    """
    options = []
    if spec is None:
        options.append(f"model=...,  # {file['model']!a}, which this server no longer has")
    else:
        given = {
            "model": spec.source,
            "dtype": spec.dtype,
            "labels": None if spec.labels is None else list(spec.labels),
        }
        options += [f"{name}={value!r}," for name, value in given.items() if value is not None]
    for name, usual in _DEFAULTS.items():
        if settings[name] != usual:
            options.append(f"{'random_state' if name == 'seed' else name}={settings[name]!r},")
    lines = ["from slalom_xai import Explainer", "", "explainer = Explainer()"]
    if options:
        lines[-1:] = ["explainer = Explainer(", *(f"    {option}" for option in options), ")"]
    lines.append(f"text = {file['text']!r}")
    texts = "text"
    if file["text_pair"] is not None:
        lines.append(f"text_pair = {file['text_pair']!r}")
        texts = "text, text_pair"
    lines += [f"explanation = explainer({texts})", "print(explanation.to_frame())"]
    return "\n".join(lines) + "\n"
