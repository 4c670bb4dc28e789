"""How texts are explained, as plain data that can be handed to other processes and to files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer

# What decides where and not what is computed.
_WHERE = ("device", "batch_tokens")


@dataclass(frozen=True)
class ExplainOptions:
    """What ``Explainer`` is made from; its docstring describes the fields.

    A model is given by name here: a folder, a file or a hub id; None is the embedded model.
    """

    model: str | None = None
    tokenizer: str | None = None
    method: str = "slalom"
    budget: int | None = None
    granularity: str = "token"
    target: str | None = None
    removal: str = "delete"
    truncation: bool = False
    seed: int = 0
    labels: tuple[str, ...] | None = None
    dtype: str | None = None
    revision: str | None = None
    trust_remote_code: bool = False
    device: str | None = None
    batch_tokens: int | None = None

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

    def explainer(self) -> Explainer:
        """Loads the model.

        Raises:
            SlalomError: an option or the model cannot be used.
        """
        from slalom_xai.explainer import Explainer

        return Explainer(
            self.model,
            self.tokenizer,
            method=self.method,
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

    def settings(self) -> dict[str, Any]:
        """What decides results, as JSON has it."""
        settings = {name: value for name, value in asdict(self).items() if name not in _WHERE}
        if self.labels is not None:
            settings["labels"] = list(self.labels)
        return settings
