"""The options of an explanation: names, types, defaults, limits and help, all in one place.

The command line, requests to the server, worker processes and stored manifests are made from these
classes. ``Explainer`` takes the same options as arguments, and Python objects besides.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, ValidationError, field_validator

from slalom_xai.errors import InputError, one_of, quote_number
from slalom_xai.models.bundled import is_bundled

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer
    from slalom_xai.models.remote import Price, RemoteClassifier
    from slalom_xai.models.remote.spending import Ledger

Granularity = Literal["token", "type", "word", "phrase", "sentence", "passage"]
Removal = Literal["auto", "hide", "delete", "mask", "unk"]
Name = Annotated[str, Field(min_length=1, max_length=200)]

# What decides where and not what is computed.
_WHERE = {"device", "batch_tokens", "remote"}


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
        from slalom_xai.models.remote.spending import Ledger

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


class OptionSet(BaseModel):
    """Options that are checked when they are put together, and do not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **given: Any) -> None:
        """Raises InputError for an option that cannot be used."""
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise _as_input_error(error) from error

    def replace(self, **changes: Any) -> Self:
        """The same options but for some."""
        return type(self)(**{**dict(self), **changes})


class TextOptions(BaseModel):
    """How one text is explained, whatever the model."""

    method: Name = Field(default="slalom", description="How to explain; see `slalom methods`.")
    budget: Annotated[int, Field(strict=True, ge=1, le=2**31)] | None = Field(
        default=None, description="Most model calls to use. Default: chosen by the text's length."
    )
    granularity: Granularity = Field(
        default="word",
        description="What gets a score: token, type, word, phrase, sentence or passage.",
    )
    target: Name | None = Field(default=None, description="Label or index of the class to explain.")
    removal: Removal = Field(
        default="auto",
        description="How to leave out a unit: hide it from the attention, delete it, or put the "
        "mask or unk token in its place; auto hides where the model allows it.",
    )
    seed: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)] = Field(
        default=0, description="The same seed gives the same explanation."
    )


class ModelOptions(BaseModel):
    """Which model, and how it is loaded."""

    model: str | None = Field(
        default=None,
        description="Folder or hub id of a classifier. Default: embedded, the bundled movie-review "
        "model.",
    )
    tokenizer: str | None = Field(
        default=None,
        description="Folder or hub id of its tokenizer. Default: the model's own.",
    )
    labels: tuple[str, ...] | None = Field(
        default=None,
        description="Names for classes that a model only numbers, such as negative,positive.",
    )
    device: str | None = Field(
        default=None,
        description="Where to run, such as cpu or cuda. Default: a GPU if there is one.",
    )
    dtype: str | None = Field(
        default=None,
        description="Precision, such as bfloat16. Default: as saved, float32 on a CPU.",
    )
    revision: str | None = Field(default=None, description="Branch, tag or commit of a hub id.")
    trust_remote_code: bool = Field(default=False, description="Let a hub model run its own code.")


class ExplainOptions(TextOptions, ModelOptions, OptionSet):
    """What ``Explainer`` is made from, as plain data for other processes and for files.

    A model is given by name here: a folder, a file or a hub id; None is the bundled model, and
    its names become None. Or it is behind an API, which ``remote`` describes. Fields without a
    description are no options of the command line.
    """

    truncation: bool = Field(
        default=False, description="Explain the beginning of a text that is too long."
    )
    batch_tokens: int | None = None
    remote: InstanceOf[RemoteOptions] | None = None

    @field_validator("model")
    @classmethod
    def _name_bundled(cls, model: str | None) -> str | None:
        """One model has one name, so that a run resumes whichever of them is given."""
        return None if is_bundled(model) else model

    def load(self, model: Any | None = None, **more: Any) -> Explainer:
        """An ``Explainer`` with these options.

        Args:
            model: an object in the place of the model that is named here.
            more: arguments of ``Explainer`` that are no plain data.

        Raises:
            SlalomError: an option or the model cannot be used.
        """
        from slalom_xai.explainer import Explainer

        given = self.model_dump(exclude={"model", "tokenizer", "labels", "seed", "remote"})
        return Explainer(
            self.model if model is None else model,
            self.tokenizer,
            labels=None if self.labels is None else list(self.labels),
            random_state=self.seed,
            **{**given, **more},
        )

    def load_for_table(self, ledger: Path | None = None) -> Explainer:
        """The same for many texts: fewer calls for each, and one class for all of them.

        Args:
            ledger: where it is kept what a model behind an API has cost; None: nowhere.
        """
        from slalom_xai.methods import estimator
        from slalom_xai.methods.slalom import FOR_TABLES, Slalom

        method = estimator(self.method)
        if isinstance(method, Slalom) and self.budget is None:
            method = Slalom(settings=FOR_TABLES)
        remote = None if self.remote is None else self.remote.classifier(ledger)
        explainer = self.load(remote, method=method, show_progress=False)
        if self.target is None and explainer.model.outputs.kind == "binary":
            explainer.target = 1  # so that the scores of texts can be compared
        return explainer

    def fingerprint(self) -> str:
        """What tells the model from every other one; a hub id must be in the local cache."""
        from slalom_xai.models.fingerprints import fingerprint

        if self.remote is not None:
            return self.remote.classifier().fingerprint[:16]
        return fingerprint(self.model, self.dtype, self.revision)

    def settings(self) -> dict[str, Any]:
        """What decides results, as JSON has it."""
        settings = self.model_dump(mode="json", exclude=_WHERE)
        if self.remote is not None:
            settings["api"] = self.remote.settings()
        return settings


def _as_input_error(error: ValidationError) -> InputError:
    """What is wrong with the first option that is, in one line."""
    first = error.errors(include_url=False)[0]
    name, given = str(first["loc"][0]), first["input"]
    if first["type"] == "extra_forbidden":
        return InputError(f"unknown option {name}: see the documentation for those that there are")
    if first["type"] == "literal_error":
        kinds = {"granularity": Granularity, "removal": Removal}
        return one_of(name, given, get_args(kinds[name]))
    if name == "budget":
        return InputError(
            f"budget is {given!r}: give a whole number of model calls, or leave it out"
        )
    if name == "seed":
        return InputError(
            f"seed is {quote_number(given)}: give a whole number from 0 to {2**63 - 1}"
        )
    return InputError(f"{name} is {given!r}: {first['msg'].lower()}")
