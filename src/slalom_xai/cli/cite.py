"""The command ``slalom cite``."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slalom_xai.cli.api import (
    Api,
    report_spending,
)
from slalom_xai.cli.cache import report_cache
from slalom_xai.cli.one_text import Watch, explain_text, finish, read_text, somebody_watches
from slalom_xai.cli.options import (
    AsJson,
    CacheFolder,
    Offer,
    TextField,
    UseCache,
    cache_option,
    spread_options,
    without_default,
)
from slalom_xai.cli.output import Write
from slalom_xai.options import ExplainOptions
from slalom_xai.system.files import check_writable
from slalom_xai.system.interrupts import exit_on_interrupt

if TYPE_CHECKING:
    from slalom_xai.explainer import Explainer
    from slalom_xai.explanation import Explanation
    from slalom_xai.models.language import AnswerModel
    from slalom_xai.models.remote import RemoteAnswerModel

_EPILOG = """\
Examples:

    slalom cite --model ./my-lm --context report.txt --question "What did the board decide?"

    slalom cite --model ./my-lm --sources a.txt --sources b.txt --question "Who won?"

    slalom cite --model ./my-lm --sources passages.jsonl --question "Who won?" --html cite.html

    slalom cite --model ./my-lm --context report.txt --question "Was it unanimous?" --answer "Yes."

    slalom cite --api http://localhost:8000/v1 --api-model NAME --max-calls 100
        --context report.txt --question "What did the board decide?"
"""

_PLAIN = ("", ".txt", ".md")  # files that are one source each

_Model = Annotated[
    str | None,
    without_default("Folder or hub id of a causal language model; or give --api in its place."),
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
_USUAL_CALLS = 64
_Options = Annotated[
    ExplainOptions,
    Offer(
        without=("model", "labels", "removal", "truncation"),
        usual={"granularity": "sentence", "budget": _USUAL_CALLS},
        help={
            "granularity": "What of the context gets a score: sentence, passage, phrase or word.",
            "target": "The part that is shown first. Default: the whole answer.",
            "budget": "Most model calls to use.",
        },
    ),
]
_Api = Annotated[Api, Offer(without=("label", "prompt", "samples"))]
_Out = Annotated[Path | None, without_default("Save the explanation as JSON here.")]
_Html = Annotated[Path | None, without_default("Save the interactive view as a web page here.")]


def register(app: typer.Typer) -> None:
    """Adds the command to the command line."""
    app.command("cite", epilog=_EPILOG)(spread_options(_cite))


def _cite(
    *,
    question: _Question,
    model: _Model = None,
    context: _Context = None,
    sources: _Sources = None,
    text_field: TextField = "text",
    answer: _Answer = None,
    max_new_tokens: _MaxNewTokens = 32,
    spans: _Spans = "answer",
    span: _Span = None,
    template: _Template = None,
    options: _Options,
    cache: UseCache = None,
    cache_folder: CacheFolder = None,
    as_json: AsJson = False,
    out: _Out = None,
    html: _Html = None,
    behind: _Api,
) -> None:
    """Shows which parts of a text a language model's answer comes from."""
    behind.check(model)
    _check_model(model, options, behind)
    given = _given(context, sources, text_field)
    wanted_cache = cache_option(cache, cache_folder)
    check_writable("--out", out)
    check_writable("--html", html)
    watch = Watch() if somebody_watches() and not as_json else None
    with exit_on_interrupt():  # most of the waiting before the first call is imports
        from slalom_xai.explainer import Explainer

        prompt = None if template is None else read_text(template)
        remote = behind.answers(prompt, max_new_tokens, span or spans)
        explainer = Explainer(
            remote or _load(model, options, prompt, max_new_tokens, span or spans),
            method=options.method,
            budget=options.budget,
            granularity=options.granularity,
            target=options.target,
            random_state=options.seed,
            on_round=None if watch is None else watch.on_round,
            cache=wanted_cache,
        )
    if remote is not None:
        _agree(behind, remote, explainer, given, question, answer)
    ask = partial(_ask, explainer, given, question, answer)
    try:
        with report_spending(remote):
            explanation, interrupted = explain_text(ask, watch)
    finally:
        if explainer.cache is not None:
            report_cache(explainer.cache)
    writes: list[Write] = []
    if out is not None:
        writes.append(("--out", out, explanation.save))
    if html is not None:
        writes.append(("--html", html, explanation.to_html))
    finish(explanation, writes, as_json, interrupted)


def _check_model(model: str | None, options: ExplainOptions, behind: Api) -> None:
    """Refuses no model, and options that a model behind an API has no use for."""
    from slalom_xai.errors import InputError

    if behind.api is None:
        if model is None:
            raise InputError("there is no language model: give --model FOLDER, or --api URL")
        return
    for name in ("tokenizer", "device", "dtype", "revision", "trust_remote_code"):
        if getattr(options, name):
            option = name.replace("_", "-")
            raise InputError(f"--{option} is given with --api: the server decides that")


def _load(
    model: str | None,
    options: ExplainOptions,
    template: str | None,
    max_new_tokens: int,
    spans: str | list[str],
) -> AnswerModel:
    """The model that runs here."""
    from slalom_xai.models.language import AnswerModel

    return AnswerModel(
        model,
        options.tokenizer,
        template=template,
        max_new_tokens=max_new_tokens,
        spans=spans,
        device=options.device,
        dtype=options.dtype,
        revision=options.revision,
        trust_remote_code=options.trust_remote_code,
    )


def _agree(
    behind: Api,
    model: RemoteAnswerModel,
    explainer: Explainer,
    given: str | list[str],
    question: str,
    answer: str | None,
) -> None:
    """Says what the calls may take, asks whether to begin, and sets the budget that is left."""
    from slalom_xai.explainer import Explainer

    asked = model.unanswered(given, question)
    counting = Explainer(
        asked,
        method=explainer.method,
        budget=explainer.budget,
        granularity=explainer.granularity if isinstance(given, str) else "passage",
        cache=False,
    )
    besides = 1 if answer is not None else 2  # the prompt without a context, and the own answer
    behind.agree(counting, asked, asked.context, besides=besides)
    explainer.budget = counting.budget


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
    from slalom_xai.data.tables import read_table
    from slalom_xai.data.tables.examples import read_texts

    if file.suffix.lower() in _PLAIN:
        return [read_text(file)]
    table = read_table(file)
    table.check_fields({"--text-field": field})
    return list(read_texts(table, field))
