"""The frozen result of explaining one text: its scores, its files, and other libraries' forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from slalom_xai.explanation import exchange
from slalom_xai.explanation.consistency import check_loaded
from slalom_xai.explanation.saving import (
    explanation_fields,
    explanation_to_dict,
    file_content,
)
from slalom_xai.explanation.scored_text import ScoredText
from slalom_xai.methods.scores import DEFAULT_SCORE
from slalom_xai.models.text import Unit
from slalom_xai.system.files import read_json, write_file

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(ScoredText):
    """Why a model answered as it did, for one text and one target.

    Explanations come from an ``Explainer``, from ``Explanation.load`` or from another library;
    nothing in one changes.

    Attributes:
        text: the text as given.
        units: the pieces that have scores, in reading order.
        method: the name of the method.
        model: the name of the model.
        granularity: what the units are.
        removal: what leaving out a unit meant; "unknown" for scores made elsewhere.
        outputs: what the model's numbers mean.
        target_index: which of ``outputs.labels`` is explained.
        full: the model's own outputs on the whole text, one per explained column.
        function: the surrogate that predicts what deletions do, for all columns.
        column_errors: standard errors per column, by score name.
        column_fidelity: fidelity per column; None where no calls were left to check.
        calls_fit: model calls used to fit and to choose.
        calls_check: model calls used only to report.
        left_out: the end of the text that truncation cut off.
        random_state: the seed.
        occurrences: how often each unit stands in the text, where that is more than once
            (granularity "type"); the importances inside ``function`` are those of all occurrences
            together.
        notes: what a reader should know, a sentence each.
        passes: rows put through the model from within (gradients, attention), beside ``calls``.
        column_measured: the scores per column that are the model's own answers, by name; the
            others are fitted.
        text_pair: the second text of a pair; its units have ``part`` 1.
        question: what a language model was asked about the text; None for other models.
        reply: the answer to it that is explained, as a whole or in parts.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Explanation) and self.to_dict() == other.to_dict()

    __hash__ = ScoredText.__hash__  # Python drops it where __eq__ is defined

    def for_target(self, target: str | int) -> Explanation:
        """The same explanation for another class, without model calls."""
        return replace(self, target_index=self.outputs.index(target))

    def as_list(self, score: str = DEFAULT_SCORE) -> list[tuple[str, float]]:
        """Pairs of unit text and score, in reading order."""
        pairs = zip(self.units, self.scores(score), strict=True)
        return [(unit.text, float(number)) for unit, number in pairs]

    def to_frame(self) -> pd.DataFrame:
        """One row per unit: its span, every score and every standard error.

        ``effect`` says whether a unit has an effect beyond its noise; where it has none, there is
        no value to read.

        ``attrs["source"]`` says for each score whether it was measured or fitted, and
        ``attrs["interactions"]`` lists pairs of units, as in ``interactions``.
        """
        import pandas as pd

        fields: dict[str, Any] = {
            "unit": [unit.text for unit in self.units],
            "start": [unit.start for unit in self.units],
            "end": [unit.end for unit in self.units],
        }
        if self.text_pair is not None:
            fields["part"] = [unit.part for unit in self.units]
        names = self.score_names
        for name in names:
            fields[name] = self.scores(name)
        for name in names:
            if name in self.standard_errors:
                fields[f"{name}_se"] = self.standard_errors[name]
        if self.has_importances:
            fields["effect"] = self.has_effect
        frame = pd.DataFrame(fields)
        frame.attrs["source"] = {name: self.source(name) for name in names}
        frame.attrs["interactions"] = [asdict(pair) for pair in self.interactions]
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything, as plain data for JSON; what is not finite becomes None."""
        return explanation_to_dict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Explanation:
        """The inverse of ``to_dict``."""
        explanation = cls(**explanation_fields(data))
        check_loaded(explanation, data)
        return explanation

    def save(self, path: str | Path) -> Path:
        """Writes JSON that ``load`` reads; returns the path."""
        return write_file(path, file_content(self))

    @classmethod
    def load(cls, path: str | Path) -> Explanation:
        """Reads what ``save`` wrote."""
        return cls.from_dict(read_json(path))

    def to_shap(self) -> Any:
        """The Shapley values as a ``shap.Explanation``, for shap's plots.

        Base value and values add up to ``predict`` for the whole text; ``for_target`` exports
        another class.
        """
        return exchange.to_shap(self)

    def to_captum(self, score: str = DEFAULT_SCORE) -> Any:
        """One score as captum's ``VisualizationDataRecord``.

        ``captum.attr.visualization.visualize_text`` draws it.

        Args:
            score: any name ``scores`` takes; the default shares out the prediction.
        """
        return exchange.to_captum(self, score)

    @classmethod
    def from_scores(
        cls,
        text: str,
        units: Sequence[str] | Sequence[tuple[int, int]] | Sequence[Unit],
        scores: ArrayLike,
        *,
        prediction: ArrayLike | None = None,
        base_value: ArrayLike | None = None,
        label: str | Sequence[str] = "output",
        method: str = "imported",
        model: str = "",
    ) -> Explanation:
        """An additive explanation from scores made elsewhere.

        The numbers are used as they are, on whatever scale they have.

        Args:
            text: the text that was explained.
            units: strings, (start, end) pairs of characters, or units of another explanation.
                Strings are found in the text from left to right, if need be without sub-word
                markers (##, Ġ, ▁, </w>) and in any case. Spans may come in any order.
            scores: (n,), or (n, C) with C labels.
            prediction: the model's own output; by default ``base_value`` and the scores added up.
            base_value: the output without any unit; by default what the prediction leaves, or 0.
                Where both are given and do not add up, both are kept and ``notes`` says so.
            label: what the scores argue for; a list for several columns, of which the largest
                prediction becomes the target.
            method: how the scores were made.
            model: the name of the model.
        """
        fields = exchange.from_scores(
            text,
            units,
            scores,
            prediction=prediction,
            base_value=base_value,
            label=label,
            method=method,
            model=model,
        )
        return cls(**fields)

    @classmethod
    def from_shap(
        cls, values: Any, text: str | None = None, output: str | int | None = None
    ) -> Explanation:
        """From the ``shap.Explanation`` of one text.

        Args:
            values: what shap returned.
            text: the text that was explained; by default its tokens joined.
            output: the target, by name or index.
        """
        return cls(**exchange.from_shap(values, text, output))

    @classmethod
    def from_captum(cls, record: Any, text: str | None = None) -> Explanation:
        """From a result of captum.

        Args:
            record: a ``VisualizationDataRecord``, an ``LLMAttributionResult`` or a pair
                (tokens, attributions).
            text: the text that was explained; by default its tokens joined.
        """
        return cls(**exchange.from_captum(record, text))

    @classmethod
    def from_lime(
        cls, explanation: Any, text: str | None = None, label: str | int | None = None
    ) -> Explanation:
        """From an explanation by ``LimeTextExplainer``.

        Args:
            explanation: what lime returned.
            text: the text that was explained; lime's explanation holds it, too.
            label: the class, by name or by lime's number.
        """
        return cls(**exchange.from_lime(explanation, text, label))

    def to_html(self, path: str | Path) -> Path:
        """Writes the interactive view as one page that needs no network; returns the path.

        ``slalom_xai.reports.html.write_report`` puts several explanations into one page.
        """
        from slalom_xai.reports.html import page

        return write_file(path, page(self))

    def _repr_html_(self) -> str:
        from slalom_xai.reports.html import fragment

        return fragment(self)
