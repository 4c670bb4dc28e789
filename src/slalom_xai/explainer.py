"""The front door: puts a model, a method and a text together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, overload

import numpy as np
import torch

from slalom_xai.designs import check_budget, default_budget, least_budget, most_budget
from slalom_xai.errors import InputError, ModelError, SlalomError, check_seed, one_of
from slalom_xai.estimators import Estimator, estimator
from slalom_xai.estimators.base import one_distinct_unit
from slalom_xai.explanation import Explanation
from slalom_xai.models import Prompt, TextModel, prompt
from slalom_xai.models.load import text_model
from slalom_xai.progress import progress_bar, quiet_in_notebooks
from slalom_xai.queries import AnswerSource, Batches, Progress, Queries, WorkPool, out_of_memory
from slalom_xai.queries.many_texts import explain_together
from slalom_xai.system.threads import at_most, for_fit
from slalom_xai.text import GRANULARITIES

REMOVALS = ("delete", "mask", "unk")
MOST_REPEATS = 100  # of the whole text, where the model is noisy
CALLS_PER_REPEAT = 30  # and of a budget no more than one call in so many
STEADY = (
    1e-3  # answers to one question that differ by less, relative to their size, differ by rounding
)


class Explainer:
    """Explains what a text classifier does with the words it reads.

    Args:
        model: a hub id or a folder, a transformers model, a text-classification pipeline, a torch module
            ``(input_ids, attention_mask) -> logits``, a fitted scikit-learn pipeline, an ONNX file or session, or a function
            ``list[str] -> (n, classes)``; None is the embedded movie-review classifier.
        tokenizer: needed beside model objects that take token ids; found by itself for ids, folders and pipelines.
        method: a name in ``methods()``, or a configured instance such as ``Slalom(priors=(1e-2,))``.
        budget: model calls allowed per text, all of them counted; None chooses by the text's length.
        granularity: what gets a score: "token" (each position; words, for functions), "type" (equal tokens share
            theirs), "word", "phrase" (up to punctuation) or "sentence".
        target: label or index of the class to explain; None: the second of two, else the predicted one.
        removal: what leaving out a unit means: "delete", or putting the tokenizer's "mask" or "unk" token in its place.
        output: what functions, modules and sessions return: "probabilities" or "logits"; "auto" is probabilities for
            functions from texts and logits for the others.
        truncation: explain the beginning of a text that is too long, instead of refusing it.
        random_state: the seed; the same seed gives the same explanation.
        device: where to load a model given by name, such as "cuda"; None: a GPU if there is one.
        dtype: precision to load it in, such as "bfloat16"; None: as saved, float32 on a CPU.
        batch_tokens: padded tokens per batch; None fits itself to the device.
        revision: branch, tag or commit of a hub id.
        trust_remote_code: allow a hub model to run its own code.
        show_progress: a progress bar; None: when a person is watching.
        labels: the names of the classes, in the order of the model's outputs, for models that only number them: functions,
            torch modules, scikit-learn models with numbered classes, and configurations that say LABEL_0.
    """

    def __init__(
        self,
        model: str | Callable[[list[str]], Any] | TextModel | Any | None = None,
        tokenizer: Any | None = None,
        *,
        method: str | Estimator = "slalom",
        budget: int | None = None,
        granularity: str = "token",
        target: str | int | None = None,
        removal: str = "delete",
        output: str = "auto",
        truncation: bool = False,
        random_state: int = 0,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        batch_tokens: int | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        show_progress: bool | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        if granularity not in GRANULARITIES:
            raise one_of("granularity", granularity, GRANULARITIES)
        if removal not in REMOVALS:
            raise one_of("removal", removal, REMOVALS)
        if budget is not None and not _whole_and_positive(budget):
            raise InputError(
                f"budget is {budget!r}: give a whole number of model calls, or leave it out"
            )
        check_seed("random_state", random_state)
        self.method = estimator(method)
        quiet_in_notebooks()
        self.model = text_model(
            model,
            tokenizer,
            output=output,
            device=device,
            dtype=dtype,
            revision=revision,
            trust_remote_code=trust_remote_code,
            labels=labels,
        )
        self.budget = None if budget is None else int(budget)
        self.granularity = granularity
        self.target = target
        self.removal = removal
        self.truncation = truncation
        self.random_state = int(random_state)
        self.show_progress = show_progress
        self._batches = Batches(self.model, batch_tokens)
        self._unsteady: float | None = (
            None  # how far two answers to one question lay apart; None: not asked yet
        )

    @property
    def batches(self) -> Batches:
        """What hands rows to the model, for whoever else asks it, such as a metric."""
        return self._batches

    @property
    def probe_calls(self) -> int:
        """Rows asked to learn how the model takes padding and whether it repeats itself; not part of any explanation's calls."""
        return self.model.probe_calls + (self._unsteady is not None)

    @overload
    def __call__(self, text: str, text_pair: str | None = None) -> Explanation: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(
        self, text: Sequence[str], text_pair: Sequence[str] | None = None
    ) -> list[Explanation]: ...

    def __call__(
        self, text: str | Sequence[str], text_pair: str | Sequence[str] | None = None
    ) -> Explanation | list[Explanation]:
        """Explains a text or a pair of texts, or each of a list.

        Args:
            text: a text, or a list of them.
            text_pair: the second text of a sentence pair, or a list of as many.

        Raises:
            InputError: a text that cannot be explained. All texts of a list are checked before the first call.
            ModelError: the model failed; ``error.finished`` holds the explanations that were complete.
        """
        if isinstance(text, str):
            questions = [self._read(text, text_pair)]
        else:
            questions = [
                self._read(one, other, f"text {place}: ")
                for place, (one, other) in enumerate(_paired(text, text_pair))
            ]
        finished: dict[int, Explanation] = {}
        try:
            self._explain_all(questions, finished)
        except SlalomError as error:
            error.finished = [finished[place] for place in sorted(finished)]
            raise
        return (
            finished[0]
            if isinstance(text, str)
            else [finished[place] for place in range(len(questions))]
        )

    def _read(self, text: Any, text_pair: Any = None, where: str = "") -> Prompt:
        _check_text(text, where)
        if text_pair is not None:
            _check_text(text_pair, f"{where}text_pair: ")
        try:
            reading = self.model.read(
                text, text_pair, truncation=self.truncation, removal=self.removal
            )
            question = prompt(reading, self.granularity)
            if self.budget is not None and question.distinct > 1:
                check_budget(
                    question.interchangeable,
                    self.budget,
                    self.method.parameters(len(question.units), question.distinct),
                )
        except InputError as error:
            raise type(error)(f"{where}{error}") from error
        return question

    def _explain_all(self, questions: Sequence[Prompt], finished: dict[int, Explanation]) -> None:
        """Explains the first text alone, which shows how the model takes padding and whether it repeats itself, and the others together.

        A text that fails does not take those with it that are under way.
        """
        alone = 1 if self.method.combines else len(questions)
        failed: list[BaseException] = []

        def explain_later(source: AnswerSource, pool: WorkPool, number: int) -> Explanation | None:
            return (
                None
                if failed
                else self._explain_quickly(questions[alone + number], source, progress, pool)
            )

        with progress_bar(self.show_progress) as progress:
            for place, question in enumerate(questions[:alone]):
                finished[place] = self._explain_quickly(question, self._batches, progress)
            weights = [
                self._calls(question)[0] * len(question.units) for question in questions[alone:]
            ]
            longest = max((len(question.units) for question in questions[alone:]), default=0)
            for number, found in explain_together(
                explain_later, weights, self._batches, for_fit(longest)
            ):
                if isinstance(found, BaseException):
                    failed.append(found)
                elif found is not None:
                    finished[alone + number] = found
        if failed:
            raise failed[0]

    def _calls(self, question: Prompt) -> tuple[int, int | None]:
        """The calls a text may take, and how many to begin with where the method may stop before that."""
        if self.budget is not None:
            return self.budget, None
        parameters = self.method.parameters(len(question.units), question.distinct)
        usual = default_budget(question.interchangeable, parameters)
        if not self.method.stops_by_itself:
            return usual, None
        return most_budget(question.interchangeable, parameters), usual

    def _explain_quickly(
        self,
        question: Prompt,
        source: AnswerSource,
        progress: Progress | None,
        pool: WorkPool | None = None,
    ) -> Explanation:
        """Explains with as many threads as the fit needs; methods that reach into the model keep theirs."""
        asks_only = self.method.combines
        try:
            with at_most(for_fit(len(question.units)) if asks_only else None):
                return self._explain(question, source, progress, pool)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise ModelError(
                f"explaining a text of {len(question.units)} units by {self.method.name} takes more memory "
                "than there is: use a shorter text, a larger granularity, or another method"
            ) from error

    def _explain(
        self,
        question: Prompt,
        source: AnswerSource,
        progress: Progress | None,
        pool: WorkPool | None = None,
    ) -> Explanation:
        budget, first = self._calls(question)
        queries = Queries(
            source, question, budget=budget, progress=progress, first=first, pool=pool
        )
        whole = np.ones((1, len(question.units)), dtype=bool)
        full = queries.ask(whole, "fit" if question.distinct == 1 else "check")[0].tolist()
        target = self.model.outputs.target(
            self.target, full
        )  # a wrong target is said before thousands of calls
        if question.distinct == 1:
            findings = one_distinct_unit(full, len(question.units), self.method.additive)
        else:
            if self._unsteady is None and self.method.probes_noise:
                self._unsteady = self._difference(question, full)
            repeats = self._repeats(question, budget)
            if repeats:
                queries.ask_again(repeats)
                full = queries.ask(whole)[0].tolist()
            findings = self.method.explain(queries, np.random.default_rng(self.random_state))
        notes = question.notes + findings.notes
        notes += self._about_noise(queries)
        if question.reading.in_place and queries.asked_sequences:
            notes += (
                f"{self.method.name} asks short sequences in which nothing is replaced: removal={self.removal!r} applies only to the test.",
            )
        return Explanation(
            text=question.reading.text,
            text_pair=question.reading.text_pair,
            units=question.units,
            method=self.method.name,
            model=self.model.name,
            granularity=self.granularity,
            removal=self.removal,
            outputs=self.model.outputs,
            target_index=target.index,
            full=tuple(full),
            function=findings.surrogate.cpu(),
            column_errors=tuple(
                {name: error.cpu().numpy() for name, error in column.items()}
                for column in findings.standard_errors
            ),
            column_fidelity=findings.fidelity,
            notes=notes,
            calls_fit=queries.calls_fit,
            calls_check=queries.calls_check,
            passes=findings.passes,
            left_out=question.reading.left_out,
            random_state=self.random_state,
            occurrences=tuple(question.occurrences.tolist()) if self.granularity == "type" else (),
        )

    @property
    def _noisy(self) -> bool:
        return self._unsteady is not None and self._unsteady > STEADY

    def _repeats(self, question: Prompt, budget: int) -> int:
        """How often the whole text of a noisy model is asked again: every change is measured from it."""
        if not self._noisy or not self.method.probes_noise:
            return 0
        parameters = self.method.parameters(len(question.units), question.distinct)
        spare = budget - least_budget(question.interchangeable, parameters)
        return min(MOST_REPEATS, budget // CALLS_PER_REPEAT, spare)

    def _about_noise(self, queries: Queries) -> tuple[str, ...]:
        """What a reader should know of a noisy model."""
        if self._unsteady is None or not self._noisy:
            return ()
        found = f"The model is noisy: asked the same twice, its answers differed by {100 * self._unsteady:.2g}% of their size."
        if queries.whole_variance is None:
            return (
                f"{found} The intervals do not include the noise of the answer to the whole text; raise the budget.",
            )
        return (
            f"{found} The whole text was asked several times, and the mean is explained. "
            "The intervals include the noise; a larger budget narrows them.",
        )

    def _difference(self, question: Prompt, full: list[float]) -> float:
        """How far a second answer about the whole text lies from the first, relative to its size."""
        whole = np.ones((1, len(question.units)), dtype=bool)
        again = Queries(self._batches, question, budget=1).ask(whole, "check")[0].cpu()
        first = torch.tensor(full, dtype=torch.float64)
        return float((again - first).abs().max() / (1 + first.abs().max()))


def explain(
    text: str,
    model: str | Callable[[list[str]], Any] | TextModel | Any | None = None,
    tokenizer: Any | None = None,
    *,
    text_pair: str | None = None,
    method: str | Estimator = "slalom",
    budget: int | None = None,
    granularity: str = "token",
    target: str | int | None = None,
    removal: str = "delete",
    output: str = "auto",
    truncation: bool = False,
    random_state: int = 0,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    batch_tokens: int | None = None,
    revision: str | None = None,
    trust_remote_code: bool = False,
    show_progress: bool | None = None,
    labels: Sequence[str] | None = None,
) -> Explanation:
    """Explains one text; the options are those of ``Explainer``, which is faster for many texts.

    Example:
        >>> from slalom_xai import explain
        >>> explain("A warm, funny film.").trust  # doctest: +SKIP
    """
    explainer = Explainer(
        model,
        tokenizer,
        method=method,
        budget=budget,
        granularity=granularity,
        target=target,
        removal=removal,
        output=output,
        truncation=truncation,
        random_state=random_state,
        device=device,
        dtype=dtype,
        batch_tokens=batch_tokens,
        revision=revision,
        trust_remote_code=trust_remote_code,
        show_progress=show_progress,
        labels=labels,
    )
    return explainer(text, text_pair)


def _whole_and_positive(number: object) -> bool:
    return (
        isinstance(number, (int, np.integer)) and not isinstance(number, bool) and int(number) > 0
    )


def _check_text(text: Any, where: str) -> None:
    if not isinstance(text, str):
        raise InputError(f"{where}expected a text (str), got {type(text).__name__}")
    if not text.strip():
        raise InputError(
            f"{where}the text is {'only white space' if text else 'empty'}: give at least one word"
        )
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        raise InputError(
            f"{where}the text holds half a character (a lone surrogate): decode it as UTF-8 first"
        )


def _paired(texts: Any, pairs: Any) -> list[tuple[Any, Any]]:
    """Texts with their second texts, or with None."""
    if not isinstance(texts, Iterable) or isinstance(texts, bytes):
        raise InputError(f"expected a text (str) or a list of texts, got {type(texts).__name__}")
    first = list(texts)
    if pairs is None:
        return [(text, None) for text in first]
    if isinstance(pairs, (str, bytes)) or not isinstance(pairs, Iterable):
        raise InputError(
            f"a list of texts was given with a text_pair of type {type(pairs).__name__}: give a list with one second text for each text"
        )
    second = list(pairs)
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} texts were given with {len(second)} second texts: give one second text for each text"
        )
    return list(zip(first, second, strict=True))
