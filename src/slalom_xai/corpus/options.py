"""How texts are explained, as plain data that can be handed to other processes and to files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slalom_xai.models.file_fingerprint import fingerprint
from slalom_xai.system.bundled import is_bundled

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer
    from slalom_xai.models.remote import Price, RemoteClassifier
    from slalom_xai.models.remote.ledger import Ledger

# What decides where and not what is computed.
_WHERE = ("device", "batch_tokens", "remote")


@dataclass(frozen=True)
class RemoteOptions:
    """What ``RemoteClassifier`` and its purse are made from; their docstrings describe the fields.

    The caps hold for all runs that fill a folder together.
    """

    url: str
    model: str
    labels: tuple[tuple[str, str], ...]
    prompt: str | None = None
    samples: int | None = None
    key_variable: str | None = "OPENAI_API_KEY"
    price: Price | None = None
    max_calls: int | None = None
    max_cost: float | None = None

    def spending(self, path: Path | None) -> Ledger:
        """What was spent so far, and may be spent.

        Args:
            path: where it is kept; None: nowhere.
        """
        from slalom_xai.models.remote.ledger import Ledger

        return Ledger(path, price=self.price, max_calls=self.max_calls, max_cost=self.max_cost)

    def classifier(self, ledger: Path | None = None) -> RemoteClassifier:
        """The model, before anything is sent.

        Args:
            ledger: where it is kept what was spent; None: nowhere.
        """
        from slalom_xai.models.remote import Connection, RemoteClassifier

        return RemoteClassifier(
            self.url,
            self.model,
            dict(self.labels),
            self.prompt,
            samples=self.samples,
            connection=Connection(key_variable=self.key_variable),
            spending=self.spending(ledger),
        )

    def settings(self) -> dict[str, Any]:
        """What decides results, as JSON has it."""
        return {
            "url": self.url,
            "model": self.model,
            "labels": dict(self.labels),
            "prompt": self.prompt,
            "samples": self.samples,
        }


@dataclass(frozen=True)
class ExplainOptions:
    """What ``Explainer`` is made from; its docstring describes the fields.

    A model is given by name here: a folder, a file or a hub id; None is the bundled model, and
    its names become None. Or it is behind an API, which ``remote`` describes.
    """

    model: str | None = None
    tokenizer: str | None = None
    method: str = "slalom"
    budget: int | None = None
    granularity: str = "word"
    target: str | None = None
    removal: str = "auto"
    truncation: bool = False
    seed: int = 0
    labels: tuple[str, ...] | None = None
    dtype: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    device: str | None = None
    batch_tokens: int | None = None
    remote: RemoteOptions | None = None

    def __post_init__(self) -> None:
        """One model has one name, so that a run goes on whichever of them is given."""
        if is_bundled(self.model):
            object.__setattr__(self, "model", None)

    def on(self, device: str | None) -> ExplainOptions:
        """The same on another device."""
        return replace(self, device=device)

    def check(self) -> None:
        """Refuses options that cannot be used, before a model is loaded.

        Raises:
            InputError: one of them cannot.
        """
        from slalom_xai.estimators import estimator
        from slalom_xai.explainer.inputs import check_options

        estimator(self.method)
        check_options(self.granularity, self.removal, self.budget, self.seed)

    def fingerprint(self) -> str:
        """What tells the model from every other one; a hub id must be in the local cache."""
        if self.remote is not None:
            return self.remote.classifier().fingerprint[:16]
        return fingerprint(self.model, self.dtype, self.revision)

    def explainer(self, ledger: Path | None = None) -> Explainer:
        """Loads the model.

        Args:
            ledger: where it is kept what a model behind an API has cost; None: nowhere.

        Raises:
            SlalomError: an option or the model cannot be used.
        """
        from slalom_xai.estimators import estimator
        from slalom_xai.estimators.slalom import FOR_TABLES, Slalom
        from slalom_xai.explainer import Explainer

        method = estimator(self.method)
        if isinstance(method, Slalom) and self.budget is None:
            method = Slalom(settings=FOR_TABLES)
        explainer = Explainer(
            self.model if self.remote is None else self.remote.classifier(ledger),
            self.tokenizer,
            method=method,
            budget=self.budget,
            granularity=self.granularity,
            target=self.target,
            removal=self.removal,
            truncation=self.truncation,
            random_state=self.seed,
            labels=None if self.labels is None else list(self.labels),
            device=self.device,
            dtype=self.dtype,
            batch_tokens=self.batch_tokens,
            revision=self.revision,
            trust_remote_code=self.trust_remote_code,
            show_progress=False,
        )
        if self.target is None and explainer.model.outputs.kind == "binary":
            explainer.target = 1  # one class for all texts, so that their scores can be compared
        return explainer

    def settings(self) -> dict[str, Any]:
        """What decides results, as JSON has it."""
        settings = {name: value for name, value in asdict(self).items() if name not in _WHERE}
        if self.labels is not None:
            settings["labels"] = list(self.labels)
        if self.remote is not None:
            settings["api"] = self.remote.settings()
        return settings
