"""What decides the results of a corpus: a run goes on only where all of it is the same."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from slalom_xai import __version__
from slalom_xai.corpus.schema import FORMAT, VERSION
from slalom_xai.corpus.source import CorpusSource
from slalom_xai.corpus.staging import PartSize
from slalom_xai.options import ExplainOptions

_LIBRARIES = ("torch", "transformers", "tokenizers", "numpy", "pyarrow")


def manifest(
    source: CorpusSource, options: ExplainOptions, model: str, size: PartSize
) -> dict[str, Any]:
    """What must not change between runs, as JSON has it.

    Args:
        source: the table.
        options: how texts are explained.
        model: the fingerprint of the model.
        size: of the parts.
    """
    fields = source.fields
    return {
        "format": FORMAT,
        "version": VERSION,
        "slalom-xai": __version__,
        "table": source.path.name,
        "table sha256": source.sha256(),
        "columns": {"text": fields.text, "id": fields.id, "pair": fields.pair},
        "explained with": options.settings(),
        "model fingerprint": model,
        "part": {"texts": size.texts, "characters": size.characters},
        "libraries": {name: version(name) for name in _LIBRARIES},
    }


def model_fingerprint(options: ExplainOptions) -> str:
    """What tells the model from every other one; a hub id is fetched for it.

    Raises:
        SlalomError: there is no such model.
    """
    by_name = options.model is not None and not Path(options.model).exists()
    if by_name:
        options.load_for_table()
    return options.fingerprint()
