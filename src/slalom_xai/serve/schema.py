"""What requests and answers of the API look like; the OpenAPI document is made from this."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from slalom_xai.options import Granularity, Name, Removal, TextOptions

State = Literal["queued", "running", "done", "failed", "cancelled"]
Text = Annotated[str, Field(min_length=1)]
Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]


class Asked(BaseModel):
    """A request's body: unknown fields are mistakes."""

    model_config = ConfigDict(extra="forbid", strict=True)


class JobRequest(Asked, TextOptions):
    """A text to explain."""

    model: Name
    text: Text
    text_pair: Text | None = None
    seed: Seed = 0


class PredictRequest(Asked):
    """A text that the model itself is asked about, whole or with units removed or repeated."""

    model: Name
    text: Text
    text_pair: Text | None = None
    granularity: Granularity = "word"
    removal: Removal = "auto"
    method: Name = Field(default="slalom", description="by which removal auto is chosen")
    fingerprint: Name | None = Field(
        default=None, description="of the model that is meant; another one is refused"
    )
    as_new_text: bool = Field(
        default=False, description="whether the edited text is written out and read as a new one"
    )
    counts: list[list[Annotated[int, Field(ge=0, le=100)]]] | None = Field(
        default=None, min_length=1, description="how often each unit stands in the edited text"
    )


class Problem(BaseModel):
    """What went wrong, in one line for a person."""

    error: str


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """What can go wrong at an address, beside what can go wrong at all of them."""
    everywhere = (400, 401, 403, 404, 405, 408, 413, 415, 421, 422, 500, 503, 507)
    return {status: {"model": Problem} for status in (*everywhere, *statuses)}


def answers(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The media types of an address that answers no JSON."""
    return {200: {"content": {kind: {"schema": {"type": "string"}} for kind in kinds}}}


class Health(BaseModel):
    """Whether the server answers."""

    status: Literal["ok"]


class Model(BaseModel):
    """A model of this server."""

    name: str
    state: Literal["loading", "ready", "failed"]
    message: str | None
    kind: str | None
    labels: list[str]
    limit: int | None = Field(description="tokens it reads at most")
    fingerprint: str | None
    queued: int
    running: int


class Models(BaseModel):
    """The models of this server."""

    models: list[Model]


class Method(BaseModel):
    """A way to explain."""

    name: str
    description: str


class Methods(BaseModel):
    """All ways to explain; empty until a model is ready."""

    methods: list[Method]


class Example(BaseModel):
    """A text to begin with."""

    text: str


class Job(BaseModel):
    """A text that is being explained, or was."""

    id: int
    state: State
    model: str
    method: str
    granularity: str
    target: str | None
    removal: str
    budget: int | None
    seed: int
    text: str
    text_pair: str | None
    created: float
    finished: float | None
    ahead: int | None = Field(description="jobs that are before it in the queue")
    calls: int
    expected: int
    round: int = Field(description="preliminary results so far")
    summary: str | None
    error: str | None
    key: str | None = Field(description="names the explanation, when it is done")
    prediction: float | None = Field(description="the output that is explained, for the whole text")
    predicted: str | None = Field(description="the class that the model predicts, where it does")
    probability: float | None = Field(description="of the predicted class")
    fingerprint: str | None = Field(description="of the model's weights, once they are loaded")
    cached: bool = Field(description="whether the answer was known")


class JobList(BaseModel):
    """Jobs, the newest first."""

    jobs: list[Job]


class Answer(BaseModel):
    """What a model answers to one text."""

    full: list[float] = Field(description="the outputs that are explained, as in an explanation")
    probabilities: list[float] | None
    label: str | None
    text: str | None = Field(default=None, description="what was read as a new text")
    text_pair: str | None = None


class Predictions(BaseModel):
    """What a model answers."""

    kind: str
    labels: list[str]
    removal: str = Field(description="how removed units were left out: hide, delete, mask or unk")
    as_new_text: bool
    answers: list[Answer]


class Snippet(BaseModel):
    """Python that repeats an explanation."""

    python: str


class DataSet(BaseModel):
    """The data set of this server; without a name there is none."""

    name: str | None
    rows: int = 0
    imported: bool = False
    labels: list[str] = []
    predicted: dict[str, int] = {}
    message: str | None = None


class DataRow(BaseModel):
    """A row of the data set, with the beginning of its text."""

    row: int
    text: str
    label: str | None
    prediction: str | None
    probability: float | None
    wrong: bool | None
    fidelity: float | None
    key: str | None
    empty: bool = Field(description="whether the text has no characters but spaces")
    reason: str | None = Field(description="why the model has no prediction")


class DataRows(BaseModel):
    """A page of rows."""

    rows: list[DataRow]
    next: str | None
    total: int | None


class DataText(BaseModel):
    """A row of the data set with its whole text."""

    row: int
    text: str
    label: str | None


class Folder(BaseModel):
    """The folder that this server shows; without a kind there is none."""

    kind: Literal["corpus", "audit"] | None
    name: str | None = None
    model: str | None = Field(default=None, description="the model that was explained or audited")
    texts: int = Field(default=0, description="of a corpus")
    numbers: dict[str, float | None] = Field(default={}, description="of an audit")
    files: list[str] = Field(default=[], description="of an audit, below folder/")


class ListedText(BaseModel):
    """A text of a corpus, with its beginning."""

    number: int = Field(description="its place in the corpus, from 1")
    row: int
    id: str | None
    status: str
    problem: str | None
    text: str
    target: str | None = Field(description="what is explained, and the output is for")
    predicted: str | None
    prediction: float | None
    fidelity: float | None


class ListedTexts(BaseModel):
    """Some texts of a corpus."""

    texts: list[ListedText]
    total: int


class StoredUnit(BaseModel):
    """A unit with its scores and their standard errors."""

    start: int
    end: int
    part: int
    unit: str
    value: float | None
    importance: float | None
    removal: float | None
    shapley: float | None
    value_se: float | None
    importance_se: float | None
    removal_se: float | None
    shapley_se: float | None
    effect: bool | None = Field(description="whether its effect stands out of the noise")


class StoredText(BaseModel):
    """A text of a corpus with everything that is stored of it."""

    number: int
    row: int
    id: str | None
    status: str
    problem: str | None
    text: str | None
    text_pair: str | None
    target: str | None
    predicted: str | None
    prediction: float | None
    surrogate: str | None
    sink: dict[str, float | None] | None
    units: list[StoredUnit]
    fidelity: dict[str, float | None] | None
    calls: int
    seed: int
    fingerprint: str
    notes: list[str]
