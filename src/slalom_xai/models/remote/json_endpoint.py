"""Any JSON endpoint that returns the scores of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from slalom_xai.errors import InputError, ModelError, one_of, quote_text
from slalom_xai.models.answers import Answers
from slalom_xai.models.outputs import Outputs, check_labels
from slalom_xai.models.remote.model import RemoteModel
from slalom_xai.models.remote.settings import Connection, check_number
from slalom_xai.models.remote.spending import Spending

if TYPE_CHECKING:
    import httpx

ONE, MANY = "{text}", "{texts}"
_VERSION = 1  # of what is made of a response; a change makes kept answers useless


class JsonClassifier(RemoteModel):
    """A classifier behind an endpoint that takes JSON and returns JSON.

    Args:
        url: of the endpoint.
        request: the body of a request. In a string of it, ``{text}`` stands for the text. The
            string ``{texts}`` stands for a list of them; then several go into one request.
        labels: names of the classes: in the order of the scores, or each with the name that the
            server has for it.
        response: where the scores are in an answer, such as "outputs.0.data": names of fields and
            numbers of places, with points between them. Empty: the answer itself.
        batch: texts in one request, at most; needs ``{texts}``.
        output: what the scores are, "probabilities" or "logits".
        name: how the model is called in results; None: "classifier".
        connection: how the server is asked.
        spending: what it may cost.
        transport: takes the place of the network, in tests.

    The scores of a text are a list of numbers, or a list of objects with ``label`` and ``score``.
    Several texts have a list of such lists, or all their numbers in one list.
    """

    def __init__(
        self,
        url: str,
        request: Mapping[str, Any],
        labels: Sequence[str] | Mapping[str, str],
        response: str = "",
        *,
        batch: int = 1,
        output: str = "probabilities",
        name: str | None = None,
        connection: Connection | None = None,
        spending: Spending | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        names = check_labels(list(labels)) or ()
        named = dict(labels) if isinstance(labels, Mapping) else {name: name for name in names}
        if output not in ("probabilities", "logits"):
            raise one_of("output", output, ("probabilities", "logits"))
        check_number("batch", batch, 1, whole=True)
        self._several = _has(request, MANY)
        if not self._several and not _has(request, ONE):
            raise InputError(
                f"the request {quote_text(str(request))} does not say where the text goes: put "
                f"{ONE} there, or {MANY} for a list of texts"
            )
        if batch > 1 and not self._several:
            raise InputError(f"batch is {batch}, but the request takes one text: put {MANY} there")
        super().__init__(
            url,
            name or "classifier",
            Outputs("binary" if len(names) == 2 else "multiclass", names),
            connection=connection,
            spending=spending,
            transport=transport,
        )
        self._template, self._path, self._batch = dict(request), response, batch
        self._named, self._output = named, output
        self._answered = Answers(
            self.name, probabilities=output == "probabilities", outputs=self.outputs
        )

    def prompt_of(self, text: str) -> str:
        """What the server reads: the text."""
        return text

    def _identity(self) -> Any:
        server = [_VERSION, self._template, self._path, self._output]
        return [*server, list(self._named.items())]

    def _bundles(self, asked: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
        starts = range(0, len(asked), self._batch)
        return [list(asked[start : start + self._batch]) for start in starts]

    def _request(self, texts: Sequence[str]) -> tuple[dict[str, Any], str]:
        body: dict[str, Any] = _fill_template(self._template, texts)
        return body, "".join(texts)

    def _parse_response(self, response: Any, texts: Sequence[str]) -> list[Any]:
        scores = self._at_path(response)
        if not self._several:
            return [self._numbers(scores, response)]
        width = self.outputs.width
        if isinstance(scores, list) and all(isinstance(each, (int, float)) for each in scores):
            scores = [scores[start : start + width] for start in range(0, len(scores), width)]
        if not isinstance(scores, list) or len(scores) != len(texts):
            raise self._unusable(response, f"a list with scores for {len(texts)} texts")
        return [self._numbers(each, response) for each in scores]

    def _at_path(self, response: Any) -> Any:
        """What stands where the scores should be."""
        found = response
        for step in filter(None, self._path.split(".")):
            if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            elif isinstance(found, dict) and step in found:
                found = found[step]
            else:
                raise self._unusable(response, f"{step!r} of the path {self._path!r}")
        return found

    def _numbers(self, scores: Any, response: Any) -> list[float]:
        """The scores of a text, in the order of the labels."""
        if isinstance(scores, list) and scores and all(isinstance(each, dict) for each in scores):
            pairs = [(each.get("label"), each.get("score")) for each in scores]
            given = {label: score for label, score in pairs if isinstance(label, str)}
            missing = [label for label in self._named.values() if label not in given]
            if missing:
                raise self._unusable(response, f"a score of the label {missing[0]!r}")
            scores = [given[label] for label in self._named.values()]
        valid = isinstance(scores, list) and all(
            isinstance(each, (int, float)) and not isinstance(each, bool) for each in scores
        )
        if not valid or len(scores) != self.outputs.width:
            raise self._unusable(response, f"{self.outputs.width} scores")
        try:
            return [float(each) for each in scores]
        except OverflowError:  # a whole number of hundreds of digits
            raise self._unusable(response, f"{self.outputs.width} scores") from None

    def _unusable(self, response: Any, expected: str) -> ModelError:
        return ModelError(
            f"{self.name} returned {quote_text(str(response))}, in which {expected} cannot be "
            "found: check request, response and labels"
        )

    def _logits(self, text: str, found: Sequence[Any]) -> list[float]:
        logits: list[float] = self._answered.logits([found[0]], 1, lambda _row: text)[0].tolist()
        return logits


def _has(template: Any, place: str) -> bool:
    """Whether a place for texts is somewhere in a template."""
    if isinstance(template, str):
        return template == place if place == MANY else place in template
    if isinstance(template, Mapping):
        return any(_has(each, place) for each in template.values())
    return isinstance(template, list) and any(_has(each, place) for each in template)


def _fill_template(template: Any, texts: Sequence[str]) -> Any:
    """A template with texts in their places."""
    if template == MANY:
        return list(texts)
    if isinstance(template, str):
        return template.replace(ONE, texts[0])
    if isinstance(template, Mapping):
        return {name: _fill_template(each, texts) for name, each in template.items()}
    if isinstance(template, list):
        return [_fill_template(each, texts) for each in template]
    return template
