"""``Explainer``: reads texts, has a method ask the model about them, and gives the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import signature
from typing import Any, overload

import numpy as np
import torch

from slalom_xai.errors import InputError, ModelError, ServiceError, SlalomError
from slalom_xai.explainer.assembling import AskedAs, assemble
from slalom_xai.explainer.inputs import (
    CacheOption,
    check_call,
    check_context,
    check_options,
    check_text,
    open_cache,
    pair_texts,
    read_for_removal,
)
from slalom_xai.explainer.probes import NoiseCheck, RangeProbe
from slalom_xai.explanation import Explanation
from slalom_xai.methods import Estimator, Findings, estimator
from slalom_xai.methods.base import one_distinct_unit
from slalom_xai.models import Prompt, TextModel
from slalom_xai.models.base import TakesQuestions
from slalom_xai.models.load import text_model
from slalom_xai.queries import AnswerSource, Batches, Progress, Queries, WorkPool, out_of_memory
from slalom_xai.queries.cache import KeptAnswers
from slalom_xai.queries.many_texts import explain_together
from slalom_xai.slalom.rows import check_budget
from slalom_xai.system.process import at_most, for_fit
from slalom_xai.system.progress import progress_bar, quiet_in_notebooks


class Explainer:
    """Explains what a text classifier does with the words it reads.

    Args:
        model: a hub id or a folder, a transformers model, a text-classification pipeline, a torch
            module ``(input_ids, attention_mask) -> logits``, a fitted scikit-learn pipeline, an
            ONNX file or session, a function ``list[str] -> (n, classes)``, a model behind an API
            (``models.remote``), or an ``AnswerModel``, which is asked questions; None or
            "embedded" is the bundled movie-review classifier.
        tokenizer: needed beside model objects that take token ids; found by itself for ids,
            folders and pipelines.
        method: a name in ``methods()``, or a configured instance such as
            ``Slalom(pairs=0)``.
        budget: model calls allowed per text, all of them counted; None chooses by the text's
            length.
        granularity: what gets a score: "token" (each position; words, for functions), "type"
            (equal tokens share theirs), "word", "phrase" (up to punctuation), "sentence" or
            "passage" (up to an empty line).
        target: label or index of the class to explain; None: the predicted one.
        removal: what leaving out a unit means: "hide" takes it out of the attention, and the others
            keep their positions; "delete" moves the others up; "mask" and "unk" put the tokenizer's
            token in its place. "auto" hides in transformers models that allow it, and deletes
            otherwise, for the paper's methods and in language models' answers.
        output: what functions, modules and sessions return: "probabilities" or "logits"; "auto"
            is probabilities for functions from texts, one per class, and logits for the others.
        truncation: explain the beginning of a text that is too long, instead of refusing it.
        random_state: the seed; the same seed gives the same explanation.
        device: where to load a model given by name, such as "cuda"; None: a GPU if there is one.
        dtype: precision to load it in, such as "bfloat16"; None: as saved, float32 on a CPU.
        batch_tokens: padded tokens per batch; None fits itself to the device.
        revision: branch, tag or commit of a hub id.
        trust_remote_code: allow a hub model to run its own code.
        show_progress: a progress bar; None: when a person is watching.
        labels: the names of the classes, in the order of the model's outputs, for models that
            only number them: functions, torch modules, scikit-learn models with numbered classes,
            and configurations that say LABEL_0.
        on_round: is given a preliminary explanation after each round of calls but the last, for
            methods that ask in rounds: ``slalom``, where no budget is given. The final explanation
            is the same with it and without.
        cache: where answers are kept for later runs. None: in the user's cache folder, for models
            behind an API, and nowhere for local ones; True or False; a folder; or an
            ``AnswerCache``. Results are the same with it and without.
    """

    def __init__(
        self,
        model: str | Callable[[list[str]], Any] | TextModel | Any | None = None,
        tokenizer: Any | None = None,
        *,
        method: str | Estimator = "slalom",
        budget: int | None = None,
        granularity: str = "word",
        target: str | int | None = None,
        removal: str = "auto",
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
        on_round: Callable[[Explanation], None] | None = None,
        cache: CacheOption = None,
    ) -> None:
        check_options(granularity, removal, budget, random_state)
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
        self.on_round = on_round
        self._cache = open_cache(cache, self.model)
        self._batches = Batches(self.model, batch_tokens, self._cache)
        self._noise = NoiseCheck(self._batches)
        self._range = RangeProbe(self._batches)

    @property
    def batches(self) -> Batches:
        """What hands rows to the model, for whoever else asks it, such as a metric."""
        return self._batches

    @property
    def cache(self) -> KeptAnswers | None:
        """The model's answers on disk, with its ``hits`` and ``misses``; None without a cache."""
        return self._cache

    @property
    def probe_calls(self) -> int:
        """Calls to learn how the model takes padding, whether it repeats itself, and its range.

        They are not part of any explanation's calls.
        """
        return self.model.probe_calls + self._noise.calls + self._range.calls

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self,
        text: str,
        text_pair: str | None = None,
        *,
        question: str | None = None,
        answer: str | None = None,
    ) -> Explanation: ...

    @overload
    def __call__(
        self,
        *,
        question: str,
        sources: Sequence[str],
        answer: str | None = None,
    ) -> Explanation: ...

    @overload
    def __call__(
        self, text: Sequence[str], text_pair: Sequence[str] | None = None
    ) -> list[Explanation]: ...

    def __call__(
        self,
        text: str | Sequence[str] | None = None,
        text_pair: str | Sequence[str] | None = None,
        *,
        question: str | None = None,
        sources: Sequence[str] | None = None,
        answer: str | None = None,
        **unknown: Any,
    ) -> Explanation | list[Explanation]:
        """Explains a text or a pair of texts, or each of a list; or an answer about a text.

        Args:
            text: a text, or a list of them.
            text_pair: the second text of a sentence pair, or a list of as many.
            question: what to ask a language model (``AnswerModel``) about the text.
            sources: passages to ask about, in the place of a text; each is one unit, whatever the
                granularity.
            answer: the answer to explain; None: the model's own.
            unknown: nothing else; whatever is given is refused with what to do instead.

        Raises:
            InputError: a text that cannot be explained. All texts of a list are checked before
                the first call.
            ModelError: the model failed; ``error.finished`` holds the explanations that were
                complete.
            KeyboardInterrupt: interrupted; its ``finished`` holds the same.
        """
        check_call(unknown, signature(Explainer).parameters)
        if question is not None or sources is not None or answer is not None:
            return self._asking(check_context(text, text_pair, sources), question, answer)
        if text is None:
            raise InputError("expected a text (str) or a list of texts, got None: give a text")
        one_text = isinstance(text, str)
        if one_text:
            questions = [self._read(text, text_pair)]
        else:
            both = enumerate(pair_texts(text, text_pair))
            questions = [self._read(*texts, f"text {index}: ") for index, texts in both]
        finished: dict[int, Explanation] = {}
        failed: list[Exception] = []
        try:
            for index, result in self._results(questions, lambda: bool(failed)):
                if isinstance(result, Explanation):
                    finished[index] = result
                else:
                    failed.append(result)
        except KeyboardInterrupt as interrupt:
            vars(interrupt)["finished"] = [finished[index] for index in sorted(finished)]
            raise
        if failed:
            if isinstance(failed[0], SlalomError):
                failed[0].finished = [finished[index] for index in sorted(finished)]
            raise failed[0]
        if one_text:
            return finished[0]
        return [finished[index] for index in range(len(questions))]

    def each(
        self, texts: Sequence[str], text_pairs: Sequence[str] | None = None
    ) -> Iterator[tuple[int, Explanation | Exception]]:
        """Explains many texts, of which some may fail.

        A text that cannot be explained does not stop the others, as it does in a list call.

        Args:
            texts: the texts.
            text_pairs: the second text of each, for a model of pairs.

        Yields:
            The number of a text, from 0 on, and its explanation, or what it failed with. Numbers
            come in the order in which texts are done.

        Raises:
            ServiceError: the server behind the model serves us no more.
        """
        questions: dict[int, Prompt] = {}
        for number, both in enumerate(pair_texts(texts, text_pairs)):
            try:
                questions[number] = self._read(*both)
            except SlalomError as error:
                yield number, error
        numbers = list(questions)
        gone: list[ServiceError] = []
        for index, result in self._results(list(questions.values()), lambda: bool(gone)):
            if isinstance(result, ServiceError):
                gone.append(result)
            else:
                yield numbers[index], result
        if gone:
            raise gone[0]

    def _asking(
        self, context: str | Sequence[str], question: str | None, answer: str | None
    ) -> Explanation:
        """Explains the answer of a language model to a question about a text or about sources."""
        if not isinstance(self.model, TakesQuestions):
            raise InputError(
                f"a question was asked, but {self.model.name} is no language model: "
                "leave question, sources and answer out, or give an AnswerModel"
            )
        if question is None:
            raise InputError("there is no question about the text: pass question=...")
        asked = self.model.asking(context, question, answer=answer)
        explainer = copy(self)
        explainer.model = asked
        if not isinstance(context, str):
            explainer.granularity = "passage"
        explainer._batches = Batches(asked, self._batches.tokens)
        explainer._noise = NoiseCheck(explainer._batches)
        explainer._range = RangeProbe(explainer._batches)
        return explainer(asked.context)

    def most_calls(self, text: str, text_pair: str | None = None) -> int:
        """The calls that explaining this text may take, without asking the model about it.

        Methods that stop by themselves may take fewer. The row that shows whether a model repeats
        itself is among them.
        """
        question = self._read(text, text_pair)
        if question.distinct == 1:
            return 1
        return self._calls(question)[0] + int(self.method.probes_noise)

    def _read(self, text: Any, text_pair: Any = None, where: str = "") -> Prompt:
        check_text(text, where)
        if text_pair is not None:
            check_text(text_pair, f"{where}text_pair: ")
        try:
            question = read_for_removal(
                self.model,
                text,
                text_pair,
                granularity=self.granularity,
                removal=self.removal,
                usual=self.method.removal,
                truncation=self.truncation,
            )
            if self.budget is not None and question.distinct > 1:
                least = self.method.least_calls(question)
                check_budget(len(question.units), self.budget, least)
        except InputError as error:
            raise type(error)(f"{where}{error}") from error
        return question

    def _results(
        self, questions: Sequence[Prompt], stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, Explanation | Exception]]:
        """Explains the first text alone and the others together.

        The first shows how the model takes padding and whether it repeats itself. A text that
        fails does not take those with it that are under way.

        Args:
            questions: the texts as read.
            stopped: says whether texts that are not begun are to be left out.
        """
        alone = 1 if self.method.combines else len(questions)
        later = questions[alone:]

        def explain_later(source: AnswerSource, work: WorkPool, number: int) -> Explanation | None:
            if stopped():
                return None
            return self._explain_quickly(later[number], source, progress, work)

        with progress_bar(self.show_progress) as progress:
            for index, question in enumerate(questions[:alone]):
                if stopped():
                    return
                try:
                    yield index, self._explain_quickly(question, self._batches, progress)
                except Exception as error:
                    yield index, error
            if stopped():
                return
            weights = [self._calls(question)[0] * len(question.units) for question in later]
            longest = max((len(question.units) for question in later), default=0)
            results = explain_together(explain_later, weights, self._batches, for_fit(longest))
            for number, result in results:
                if isinstance(result, Explanation | Exception):
                    yield alone + number, result
                elif result is not None:
                    raise result

    def _calls(self, question: Prompt) -> tuple[int, int | None]:
        """The calls a text may take, and how many to begin with where the method may stop early."""
        if self.budget is not None:
            return self.budget, None
        usual = self.method.usual_calls(question)
        if not self.method.stops_by_itself:
            return usual, None
        return usual, self.method.first_calls(question)

    def _explain_quickly(
        self,
        question: Prompt,
        source: AnswerSource,
        progress: Progress | None,
        work: WorkPool | None = None,
    ) -> Explanation:
        """Explains with as many threads as the fit needs; methods that look inside keep theirs."""
        threads = for_fit(len(question.units)) if self.method.combines else None
        try:
            with at_most(threads):
                return self._explain(question, source, progress, work)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            raise ModelError(
                f"explaining a text of {len(question.units)} units by {self.method.name} takes "
                "more memory than there is: use a shorter text, a larger granularity, or another "
                "method"
            ) from error

    def _explain(
        self,
        question: Prompt,
        source: AnswerSource,
        progress: Progress | None,
        work: WorkPool | None = None,
    ) -> Explanation:
        budget, first = self._calls(question)
        queries = Queries(
            source, question, budget=budget, progress=progress, first=first, work=work
        )
        full = queries.ask_whole("fit" if question.distinct == 1 else "check").tolist()
        # A wrong target is reported here, before thousands of calls.
        target = self.model.outputs.target(self.target, full)
        if self.on_round is not None:
            queries.watcher = partial(self._show_round, self.on_round, queries, target.index)
        findings = self._findings(queries)
        return self._explanation(queries, target.index, findings)

    def _show_round(
        self,
        on_round: Callable[[Explanation], None],
        queries: Queries,
        target: int,
        found: Findings,
    ) -> None:
        """Hands on what was found before all calls were made; the result says so itself."""
        note = f"A first result, after {queries.calls} calls: more calls were to follow."
        preliminary = replace(found, notes=(*found.notes, note))
        on_round(self._explanation(queries, target, preliminary))

    def _findings(self, queries: Queries) -> Findings:
        """What the method finds out about the text, whose whole has been asked."""
        question = queries.prompt
        if question.distinct == 1:
            return one_distinct_unit(queries, self.method.additive)
        if self.method.probes_noise:
            asked = self._noise.probe(queries)
            repeats = self._noise.repeats(question, self.method, queries.budget)
            if repeats > 0:
                queries.ask_again(repeats, asked)
            elif self._noise.noisy:
                queries.noise_is_unknown()
        if self.method.probes_range and question.reading.text_pair is None:
            queries.output_range = self._range.find()
        return self.method.explain(queries, np.random.default_rng(self.random_state))

    def _explanation(self, queries: Queries, target: int, findings: Findings) -> Explanation:
        """The result for the label with index ``target``."""
        asked_as = AskedAs(
            self.model,
            self.method.name,
            self.granularity,
            queries.prompt.removal,
            self.random_state,
        )
        notes = self._noise.notes(queries)
        if self._cache is not None:
            notes += self._cache.problems()
        return assemble(queries, findings, target, asked_as, notes)
