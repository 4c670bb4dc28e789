"""Python that repeats an explanation."""

from __future__ import annotations

from typing import Any

from slalom_xai.app.worker import WorkerSpec

_DEFAULTS = {
    "method": "slalom",
    "granularity": "token",
    "target": None,
    "removal": "delete",
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
        options.append(f"model=...,  # {ascii(file['model'])}, which this server no longer has")
    elif spec.source is not None:
        options.append(f"model={spec.source!r},")
    for name in ("revision", "dtype", "labels"):
        if spec is not None and getattr(spec, name) is not None:
            options.append(f"{name}={getattr(spec, name)!r},")
    for name, usual in _DEFAULTS.items():
        if settings[name] != usual:
            options.append(f"{'random_state' if name == 'seed' else name}={settings[name]!r},")
    lines = ["from slalom_xai import Explainer", ""]
    lines += ["explainer = Explainer(", *(f"    {option}" for option in options), ")"]
    if not options:
        lines[-2:] = ["explainer = Explainer()"]
    lines.append(f"text = {file['text']!r}")
    given = "text"
    if file["text_pair"] is not None:
        lines.append(f"text_pair = {file['text_pair']!r}")
        given = "text, text_pair"
    lines += [f"explanation = explainer({given})", "print(explanation.to_frame())"]
    return "\n".join(lines) + "\n"
