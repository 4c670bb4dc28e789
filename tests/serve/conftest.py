"""One server for many tests: models, a data set, and names that are full of HTML."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from servers import serving

HTML = "<script>alert(1)</script>"
REVIEWS = f"""text,label
A wonderful film with a warm heart,positive
Dull and tired from start to end,negative
I loved every minute of it,negative
{HTML},positive
"",positive
"The jokes are tired, the plot is dull",negative
A truly moving last act,positive
"""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Path:
    """A tiny model whose labels are HTML."""
    from tiny import _bert

    folder = tmp_path_factory.mktemp("models") / "tiny"
    torch.manual_seed(3)
    model, words = _bert()
    model.config.id2label = {0: "<i>bad</i>", 1: "good & well"}
    model.config.label2id = {"<i>bad</i>": 0, "good & well": 1}
    model.save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory, tiny_folder):
    """A server with three models, of which one is not there, and a data set."""
    folder = tmp_path_factory.mktemp("serve")
    data = folder / "<b>reviews<b>.csv"
    data.write_text(REVIEWS)
    models = ["embedded", f"tiny={tiny_folder}", f"{HTML}={folder}/not-there"]
    options = [part for model in models for part in ("--model", model)]
    with serving(folder / "store", *options, "--data", data) as running:
        yield running
