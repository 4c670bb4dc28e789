"""Works through a benchmark: every method on every text, every metric on every explanation."""

from __future__ import annotations

import time
from collections.abc import Callable

from slalom_xai.bench.cases import Cases, Judged
from slalom_xai.bench.explainers import Explainers
from slalom_xai.bench.items import Item
from slalom_xai.bench.log import Log
from slalom_xai.bench.options import BenchOptions, base_method
from slalom_xai.errors import InputError, SlalomError
from slalom_xai.explanation import Explanation
from slalom_xai.metrics import Asker, Measured, asker, metric
from slalom_xai.progress import Bar


class Grid:
    """Works through the texts, one at a time; what the log has is not done again.

    Args:
        explainers: make the explanations.
        options: settled ones.
        log: takes what was done.
        tell: called with one line for whatever a person should know.
    """

    def __init__(
        self,
        explainers: Explainers,
        options: BenchOptions,
        log: Log,
        tell: Callable[[str], None],
    ) -> None:
        self._options, self._log, self._tell = options, log, tell
        self._cases = Cases(explainers, options)
        self._explainers = {}
        for label in options.methods:
            self._explainers[label] = explainers.explainer(base_method(label))

    def run(self, item: Item, bar: Bar | None) -> None:
        """Explains one text with every method and measures what is not measured yet."""
        explanations: dict[str, Explanation] = {}
        for method in self._options.methods:
            explanation = self._explained(item, method)
            if explanation is not None:
                explanations[method] = explanation
        ask: Asker | None = None
        for method in self._options.methods:
            if method in explanations:
                made = self._log.made[(item.name, base_method(method))]
                ask = self._measure(Judged(item, method, explanations, made), ask)
            if bar is not None:
                bar.advance(1)

    def _explained(self, item: Item, method: str) -> Explanation | None:
        """The explanation of a text, from the log or new; None where it fails."""
        cell = (item.name, base_method(method))
        if cell in self._log.made:
            try:
                return self._log.explanation(cell)
            except InputError as error:
                self._tell(f"row {item.name}, {cell[1]}: {error}; the text is explained again")
        elif cell in self._log.failed and not self._options.retry:
            return None
        began = time.perf_counter()
        try:
            explanation = self._explainers[method](item.text)
        except SlalomError as error:
            self._log.add_failure(cell, str(error))
            return None
        self._log.add_explanation(cell, explanation, time.perf_counter() - began)
        return explanation

    def _measure(self, judged: Judged, ask: Asker | None) -> Asker | None:
        """Measures what is missing of one explanation.

        Args:
            judged: the explanation.
            ask: the model's answers so far; None: nothing was asked about the text yet.

        Returns:
            The model's answers, since other methods ask for many of the same rows.
        """
        cell = (judged.item.name, judged.method)
        measured = self._log.measured.get(cell, {})
        missing = [name for name in self._options.metrics if name not in measured]
        for name in missing:
            try:
                if ask is None:
                    ask = asker(self._explainers[judged.method], judged.explanation)
                result = self._measured(judged, ask, name)
            except SlalomError as error:
                result = metric(name).unavailable(str(error))
            self._log.add_measured(cell, name, result)
        return ask

    def _measured(self, judged: Judged, ask: Asker, name: str) -> Measured:
        """What one metric says of an explanation."""
        chosen = metric(name)
        return chosen.measure(self._cases.case(judged, ask, chosen.needs))
