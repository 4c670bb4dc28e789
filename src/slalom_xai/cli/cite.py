"""The command ``slalom cite``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.finishing import explained, finish, read_text
from slalom_xai.cli.options import (
    AsJson,
    Device,
    Dtype,
    TextField,
    TrustRemoteCode,
    without_default,
)
from slalom_xai.cli.output import Write
from slalom_xai.cli.watching import Watch, somebody_watches
from slalom_xai.system.interrupts import leaving_at_once
from slalom_xai.system.writable import check_writable

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer
    from slalom_xai.explanation import Explanation

_EPILOG = """\
Examples:

    slalom cite --model ./my-lm --context report.txt --question "What did the board decide?"

    slalom cite --model ./my-lm --sources a.txt --sources b.txt --question "Who won?"

    slalom cite --model ./my-lm --sources passages.jsonl --question "Who won?" --html cite.html

    slalom cite --model ./my-lm --context report.txt --question "Was it unanimous?" --answer "Yes."
"""

_PLAIN = ("", ".txt", ".md")  # files that are one source each

_Model = Annotated[
    str, typer.Option(help="Folder or hub id of a causal language model.", show_default=False)
]
_Tokenizer = Annotated[
    str | None, without_default("Folder or hub id of its tokenizer. Default: the model's own.")
]
_Question = Annotated[str, typer.Option(help="What to ask.", show_default=False)]
_Context = Annotated[Path | None, without_default("The text to ask about; - for standard input.")]
_Sources = Annotated[
    list[Path] | None,
    without_default(
        "A source to ask about, in the place of --context: a text file (.txt, .md), or a table "
        "(.jsonl, .csv, ...) of which each row is one. May be given several times."
    ),
]
_Granularity = Annotated[
    str, typer.Option(help="What of the context gets a score: sentence, passage, phrase or word.")
]
_Answer = Annotated[str | None, without_default("The answer to explain. Default: the model's own.")]
_MaxNewTokens = Annotated[int, typer.Option(help="Tokens after which the model's answer is cut.")]
_Spans = Annotated[
    str,
    typer.Option(
        help="Parts of the answer to explain beside the whole: sentences or tokens; answer: none."
    ),
]
_Span = Annotated[
    list[str] | None,
    without_default("A part of the answer to explain beside the whole. May be given often."),
]
_Template = Annotated[
    Path | None,
    without_default("A file with the prompt, with {context} and {question} in their places."),
]
_Target = Annotated[
    str | None, without_default("The part that is shown first. Default: the whole answer.")
]
_Method = Annotated[
    str,
    typer.Option(
        help=(
            "How to explain; see `slalom methods`. slalom measures values, and needs 50 calls more "
            "than there are units."
        )
    ),
]
_Budget = Annotated[
    int | None,
    without_default("Most model calls to use. Default: as the method chooses, 64 for slalom-few."),
]
_Seed = Annotated[int, typer.Option(help="The same seed gives the same explanation.")]
_Revision = Annotated[str | None, without_default("Branch, tag or commit of a hub id.")]
_Out = Annotated[Path | None, without_default("Save the explanation as JSON here.")]
_Html = Annotated[Path | None, without_default("Save the interactive view as a web page here.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("cite", epilog=_EPILOG)(_cite)


def _cite(
    model: _Model,
    question: _Question,
    context: _Context = None,
    sources: _Sources = None,
    text_field: TextField = "text",
    granularity: _Granularity = "sentence",
    answer: _Answer = None,
    max_new_tokens: _MaxNewTokens = 32,
    spans: _Spans = "answer",
    span: _Span = None,
    template: _Template = None,
    target: _Target = None,
    tokenizer: _Tokenizer = None,
    method: _Method = "slalom-few",
    budget: _Budget = None,
    seed: _Seed = 0,
    device: Device = None,
    dtype: Dtype = None,
    revision: _Revision = None,
    trust_remote_code: TrustRemoteCode = False,
    as_json: AsJson = False,
    out: _Out = None,
    html: _Html = None,
) -> None:
    """Shows which parts of a text a language model's answer comes from."""
    given = _given(context, sources, text_field)
    check_writable("--out", out)
    check_writable("--html", html)
    watch = Watch() if somebody_watches() and not as_json else None
    with leaving_at_once():  # most of the waiting before the first call is imports
        from slalom_xai.explainer import Explainer
        from slalom_xai.models.language import AnswerModel

        answers = AnswerModel(
            model,
            tokenizer,
            template=None if template is None else read_text(template),
            max_new_tokens=max_new_tokens,
            spans=span or spans,
            device=device,
            dtype=dtype,
            revision=revision,
            trust_remote_code=trust_remote_code,
        )
        explainer = Explainer(
            answers,
            method=method,
            budget=budget,
            granularity=granularity,
            target=target,
            random_state=seed,
            on_round=None if watch is None else watch.on_round,
        )
    ask = partial(_ask, explainer, given, question, answer)
    explanation, interrupted = explained(ask, watch)
    writes: list[Write] = []
    if out is not None:
        writes.append(("--out", out, explanation.save))
    if html is not None:
        writes.append(("--html", html, explanation.to_html))
    finish(explanation, writes, as_json, interrupted)


def _ask(
    explainer: Explainer, given: str | list[str], question: str, answer: str | None
) -> Explanation:
    """The explanation of the answer about a context or about sources."""
    if isinstance(given, str):
        return explainer(given, question=question, answer=answer)
    return explainer(sources=given, question=question, answer=answer)


def _given(context: Path | None, sources: list[Path] | None, field: str) -> str | list[str]:
    """The context, or the sources in its place.

    Raises:
        InputError: both, neither, or a file without texts.
    """
    from slalom_xai.errors import InputError

    if (context is None) == (not sources):
        raise InputError("give --context FILE or --sources FILE, one of them")
    if context is not None:
        return read_text(None if str(context) == "-" else context)
    return [text for source in sources or () for text in _texts(source, field)]


def _texts(file: Path, field: str) -> list[str]:
    """The rows of a table, or a whole file of text."""
    from slalom_xai.tables import read_table
    from slalom_xai.tables.examples import read_texts

    if file.suffix.lower() in _PLAIN:
        return [read_text(file)]
    table = read_table(file)
    table.check_fields({"--text-field": field})
    return list(read_texts(table, field))
