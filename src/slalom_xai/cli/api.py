"""Models behind an API on the command line: which one, what it may cost, and whether to begin."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer
    from slalom_xai.models.remote import (
        Connection,
        Price,
        RemoteAnswerModel,
        RemoteClassifier,
        Spending,
    )
    from slalom_xai.models.remote.answering import RemoteAskedModel
    from slalom_xai.options import RemoteOptions

_FOR_ANSWERS = 0.9  # of the calls that are allowed; the others are left for requests tried again


class Api(BaseModel):
    """What the options say about a model behind an API; ``api`` is None where there is none."""

    model_config = ConfigDict(frozen=True)

    api: str | None = Field(
        default=None,
        description="Address of a server that speaks OpenAI's protocol: explain a model there.",
    )
    api_model: str | None = Field(default=None, description="Name of the model at --api.")
    label: list[str] | None = Field(
        default=None,
        description="A class and the token answered for it, such as positive=1. Once per class.",
    )
    prompt: Path | None = Field(
        default=None,
        description="File with the prompt; {text} in it is the text. Default: a plain request.",
    )
    samples: int | None = Field(
        default=None,
        description="For servers without log-probabilities: ask so often and count the labels.",
    )
    key_variable: str = Field(
        default="OPENAI_API_KEY",
        description="Environment variable with the key for --api; empty: send none.",
    )
    price: str | None = Field(
        default=None,
        description="Price of a million tokens at --api, as IN or IN,OUT, such as 0.15,0.60.",
    )
    max_calls: int | None = Field(
        default=None, description="Requests to --api that may be billed, at most."
    )
    max_cost: float | None = Field(
        default=None, description="What --api may cost, at most; needs --price."
    )
    yes: bool = Field(
        default=False, description="Begin without asking whether --api may be used so much."
    )

    def check(self, model: str | None) -> None:
        """Refuses options that do not go together, before anything heavy is imported.

        Args:
            model: what --model says.
        """
        from slalom_xai.errors import InputError

        if self.api is not None:
            if model is not None:
                raise InputError("--model and --api are both given: leave one of them out")
            return
        needs_it = {
            "--api-model": self.api_model,
            "--label": self.label,
            "--prompt": self.prompt,
            "--samples": self.samples,
            "--price": self.price,
            "--max-calls": self.max_calls,
            "--max-cost": self.max_cost,
            "--yes": self.yes,
        }
        for option, given in needs_it.items():
            if given:
                raise InputError(f"{option} is given without --api: give the address of a server")

    def classifier(self) -> RemoteClassifier | None:
        """The model as a classifier, before anything is sent; None without --api."""
        if self.api is None:
            return None
        from slalom_xai.models.remote import RemoteClassifier

        return RemoteClassifier(
            self.api,
            self._named_model(),
            _labels(self.label or []),
            _prompt(self.prompt),
            samples=self.samples,
            connection=self._connection(),
            spending=self._spending(),
        )

    def remote_options(self) -> RemoteOptions | None:
        """The model as plain data, for many texts; None without --api."""
        if self.api is None:
            return None
        from slalom_xai.options import RemoteOptions

        return RemoteOptions(
            self.api,
            self._named_model(),
            tuple(_labels(self.label or []).items()),
            _prompt(self.prompt),
            samples=self.samples,
            key_variable=self.key_variable or None,
            price=self._price(),
            max_calls=self.max_calls,
            max_cost=self.max_cost,
        )

    def answers(
        self, template: str | None, max_new_tokens: int, spans: str | Sequence[str]
    ) -> RemoteAnswerModel | None:
        """The model as one that is asked questions, before anything is sent; None without --api."""
        if self.api is None:
            return None
        from slalom_xai.models.remote import RemoteAnswerModel

        return RemoteAnswerModel(
            self.api,
            self._named_model(),
            template=template,
            max_new_tokens=max_new_tokens,
            spans=spans,
            connection=self._connection(),
            spending=self._spending(),
        )

    def _named_model(self) -> str:
        from slalom_xai.errors import InputError

        if not self.api_model:
            raise InputError("--api is given without --api-model: name the model at that address")
        return self.api_model

    def _connection(self) -> Connection:
        from slalom_xai.models.remote import Connection

        return Connection(key_variable=self.key_variable or None)

    def _spending(self) -> Spending:
        from slalom_xai.models.remote import Spending

        return Spending(price=self._price(), max_calls=self.max_calls, max_cost=self.max_cost)

    def _price(self) -> Price | None:
        from slalom_xai.models.remote import Price

        return None if self.price is None else Price.parsed(self.price)

    def agree(
        self,
        explainer: Explainer,
        model: RemoteClassifier | RemoteAskedModel,
        text: str,
        pair: str | None = None,
        besides: int = 0,
    ) -> None:
        """Says what the explanation may take, and asks whether to begin.

        Without a budget, the explainer gets the one that --max-calls leaves.

        Args:
            explainer: will explain the text.
            model: what is asked.
            text: to be explained.
            pair: its second text.
            besides: calls that are no part of the explanation.
        """
        from slalom_xai.errors import BudgetError
        from slalom_xai.models.remote.spending import Estimate

        calls = explainer.most_calls(text, pair) * model.draws + besides
        if explainer.budget is None and self.max_calls is not None and calls > self.max_calls:
            left = int((_FOR_ANSWERS * self.max_calls - besides) / model.draws) - 1
            explainer.budget = max(1, left)
            try:
                calls = explainer.most_calls(text, pair) * model.draws + besides
            except BudgetError as error:
                raise BudgetError(
                    f"max_calls={self.max_calls} leaves a budget of {explainer.budget}: {error}"
                ) from error
        prompt, price = model.prompt_of(text), model.spending.price
        estimate = Estimate.of(calls, prompt, model.most_written, price)
        self._ask(f"Asking {model.name}: {estimate}.")

    def agree_to_many(
        self, explainer: Explainer, model: RemoteClassifier, texts: int, some: Sequence[str]
    ) -> None:
        """Says what explaining many texts may take, and asks whether to begin.

        Args:
            explainer: will explain the texts.
            model: what is asked.
            texts: how many.
            some: of them.
        """
        from slalom_xai.errors import InputError
        from slalom_xai.models.remote.spending import Estimate

        calls, prompts = [], []
        for text in some:
            with suppress(InputError):  # it fails, and costs nothing
                calls.append(explainer.most_calls(text) * model.draws)
                prompts.append(model.prompt_of(text))
        if not calls:
            return
        longest = max(prompts, key=len)
        each = round(sum(calls) / len(calls))
        estimate = Estimate.of(each * texts, longest, model.most_written, model.spending.price)
        spent = f" Spent so far: {model.spending}." if model.spending.calls else ""
        self._ask(f"Asking {model.name} about {texts:,} texts: {estimate}.{spent}")

    def _ask(self, what: str) -> None:
        """Says what is about to happen, and asks whether it may."""
        from slalom_xai.errors import InputError

        typer.echo(what, err=True)
        if self.yes:
            return
        if sys.stdin is None or not sys.stdin.isatty():
            raise InputError("nobody is there to agree to these calls: give --yes to begin")
        if not typer.confirm("Begin?", err=True):
            raise typer.Abort


@contextmanager
def report_spending(model: RemoteClassifier | RemoteAnswerModel | None) -> Iterator[None]:
    """Says at the end what was spent, also where something failed."""
    if model is None:
        yield
        return
    # The last try says what went wrong; lines about those before it only disturb the progress bar.
    logging.getLogger("stamina").setLevel(logging.ERROR)
    try:
        yield
    finally:
        typer.echo(f"Asked {model.name}: {model.spending}.", err=True)


def _labels(given: Sequence[str]) -> dict[str, str]:
    """Classes with the tokens answered for them."""
    from slalom_xai.errors import InputError

    labels: dict[str, str] = {}
    for each in given:
        name, equals, token = each.partition("=")
        if not equals or not name.strip() or not token.strip() or name in labels:
            raise InputError(
                f"--label is {each!r}: give each class once, with the token answered for it, "
                "such as --label negative=0 --label positive=1"
            )
        labels[name.strip()] = token.strip()
    if len(labels) < 2:
        raise InputError(
            f"--api needs two labels or more, and {len(labels)} was given: for example "
            "--label negative=0 --label positive=1"
        )
    return labels


def _prompt(file: Path | None) -> str | None:
    """The prompt in a file."""
    from slalom_xai.errors import InputError

    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").rstrip("\r\n")  # editors end files with a line
    except OSError as error:
        raise InputError(f"cannot read --prompt {file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"--prompt {file} is not UTF-8 text: save it as UTF-8") from error
