"""Servers that mean harm: what they send costs no more than agreed, in money, memory and time."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest
from api_servers import LABELS, PROMPT, ApiServer, ScoringServer
from hostile_api import Sent, bomb, escaped, hostile_server

from slalom_xai import Explainer
from slalom_xai.errors import BudgetError, InputError, ModelError, ServiceError, SlalomError
from slalom_xai.models.remote import (
    Connection,
    JsonClassifier,
    Price,
    RemoteAnswerModel,
    RemoteClassifier,
    Spending,
    Waiting,
)
from slalom_xai.models.remote.failures import seconds_to_wait
from slalom_xai.models.remote.spending import Ledger

pytestmark = pytest.mark.usefixtures("own_cache")

TEXT = "a slow start and then a warm film"
KEY = "sk-planted-0123456789"
CONNECTION: dict[str, Any] = {
    "waiting": Waiting(first=0.001, longest=0.002, jitter=0.001),
    "retries": 1,
}
WRITTEN: list[dict[str, Any]] = [{"completion_tokens": each} for each in (-1, True, 10**400)] + [{}]
NO_COUNTS = [-1_000_000_000, -1, 0, True, 10**400, 10**9, 12.0, "12", None]


def sound(body: dict[str, Any]) -> dict[str, Any]:
    return ApiServer()._answer(body)


def classifier(url: str, connection: dict[str, Any] | None = None, **options) -> RemoteClassifier:
    options.setdefault("kind", "chat")
    given = Connection(**{**CONNECTION, **(connection or {})})
    return RemoteClassifier(f"{url}/v1", "planted", LABELS, PROMPT, connection=given, **options)


class TestUsage:
    @pytest.mark.parametrize("count", NO_COUNTS, ids=str)
    def test_counts_that_cannot_be_true_leave_the_reservation_booked(self, count):
        def respond(body):
            usage = {"prompt_tokens": count, "completion_tokens": 1}
            return Sent.of({**sound(body), "usage": usage})

        spending = Spending(price=Price(1000.0), max_cost=3.0)
        with (
            hostile_server(respond) as url,
            pytest.raises(BudgetError, match="max_cost=3 allows no further call"),
        ):
            Explainer(classifier(url, spending=spending), budget=60)(TEXT)
        assert 0 < spending.calls == spending.guessed <= 12
        assert spending.read >= spending.calls * len(PROMPT)
        assert 1 < spending.cost <= 3

    @pytest.mark.parametrize("usage", WRITTEN, ids=["-1", "True", "large", "nothing"])
    def test_so_do_tokens_that_were_written(self, usage):
        usage = {"prompt_tokens": 7, **usage}
        spending = Spending(price=Price(1.0))
        with hostile_server(lambda body: Sent.of({**sound(body), "usage": usage})) as url:
            classifier(url, spending=spending).answer([TEXT])
        assert (spending.guessed, spending.written) == (1, 1)
        assert spending.read > 7

    @pytest.mark.parametrize("took", [[-5, 1], [True, 1], [10**400, 1], ["5", 1]], ids=str)
    def test_a_file_with_such_counts_is_refused(self, took, tmp_path):
        path = tmp_path / "spending.jsonl"
        lines = [{"sent": [9, 1]}, {"answered": [9, 1], "took": took, "guessed": False}]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        with pytest.raises(InputError, match="is no number of calls or tokens") as caught:
            Ledger(path, price=Price(1.0))
        assert len(str(caught.value)) < 500


class TestSize:
    def test_a_packed_answer_is_read(self):
        with hostile_server(lambda body: Sent.of(sound(body)).packed()) as url:
            packed = classifier(url).answer([TEXT])
        with hostile_server(lambda body: Sent.of(sound(body))) as url:
            assert packed.tolist() == classifier(url).answer([TEXT]).tolist()

    @pytest.mark.parametrize(("status", "layers"), [(200, 1), (200, 2), (500, 1), (401, 2)])
    def test_a_bomb_takes_no_memory(self, status, layers):
        packed = bomb(200 * 2**20, layers)
        sent = Sent(packed.body, status, packed.headers)
        tracemalloc.start()
        try:
            with hostile_server(lambda _body: sent) as url, pytest.raises(ServiceError) as caught:
                classifier(url).answer([TEXT])
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert most < 100 * 2**20
        assert "\n" not in str(caught.value)

    def test_what_is_too_large_may_be_billed_and_is_not_tried_again(self):
        spending = Spending(max_calls=10)
        with (
            hostile_server(lambda body: Sent.of({**sound(body), "more": "x" * 5000})) as url,
            pytest.raises(ServiceError, match=r"returned more than 5000 bytes: .*most_bytes"),
        ):
            classifier(url, {"most_bytes": 5000}, spending=spending).answer([TEXT])
        assert spending.calls == spending.guessed == 1

    @pytest.mark.parametrize("pause", [0.05])
    @pytest.mark.parametrize("status", [200, 401])
    def test_an_answer_that_drips_is_given_up(self, pause, status):
        """It would be complete two seconds later, and no byte is late."""

        def respond(body):
            return Sent.of(sound(body), pause=pause, status=status)

        with (
            hostile_server(respond) as url,
            pytest.raises(ServiceError, match=r"no complete answer in 0\.5 seconds"),
        ):
            classifier(url, {"timeout": 0.5, "retries": 0}).answer([TEXT])


PLAIN, ESCAPED = f"no {KEY}!", f"no {escaped(KEY)}!"
PARTS = [KEY[:length] for length in (8, 12, 20)]
GZIP = {"Content-Encoding": "gzip"}
LEAKS = {
    "escaped-401": Sent(f'{{"error": {{"message": "{ESCAPED}"}}}}'.encode(), 401),
    "escaped-500": Sent(f'{{"error": "{ESCAPED}"}}'.encode(), 500),
    "escaped-twice": Sent(json.dumps({"error": f'{{"message": "{ESCAPED}"}}'}).encode(), 400),
    "escaped-name": Sent(f'{{"{ESCAPED}": 1}}'.encode()),
    "escaped-200": Sent(f'{{"choices": "{ESCAPED}"}}'.encode()),
    "escaped-cut": Sent(f'{{"choices": "{ESCAPED}"'.encode()),
    "plain-cut": Sent(f'{{"choices": "{PLAIN}"'.encode()),
    "bad-gzip": Sent(PLAIN.encode(), headers=GZIP),
    "bad-gzip-401": Sent(PLAIN.encode(), 401, GZIP),
    "length": Sent(PLAIN.encode(), headers={"Content-Length": "9999"}),
    "no-http": Sent(b"", headers={PLAIN: "1"}),
    **{
        f"part-{len(part)}-{status}": Sent.of({"error": f"not {part}..."}, status=status)
        for part in PARTS
        for status in (401, 400, 500, 200)
    },
}


class TestKeys:
    @pytest.mark.parametrize("sent", LEAKS.values(), ids=LEAKS)
    def test_no_error_holds_a_key_or_a_part_of_it(self, sent, monkeypatch):
        monkeypatch.setenv("PLANTED_KEY", KEY)
        with hostile_server(lambda _body: sent) as url, pytest.raises(SlalomError) as caught:
            classifier(url, {"key_variable": "PLANTED_KEY"}).answer([TEXT])
        chain = list(raised(caught.value))
        assert KEY[:8] not in str(caught.value)
        assert f"u{ord(KEY[0]):04x}" not in str(caught.value)
        assert not [error for error in chain if isinstance(error, httpx.HTTPError)]

    @pytest.mark.parametrize("part", [KEY, *PARTS])
    @pytest.mark.parametrize("spelled", [str, escaped], ids=["plain", "escaped"])
    def test_no_store_holds_it(self, part, spelled, monkeypatch, tmp_path):
        monkeypatch.setenv("PLANTED_KEY", KEY)

        def respond(body):
            said = json.dumps(sound(body)).replace('"content": "', f'"content": "1 {spelled(part)}')
            return Sent(said.encode())

        with hostile_server(respond) as url:
            model = classifier(url, {"key_variable": "PLANTED_KEY"}, samples=2)
            Explainer(model, budget=20, cache=tmp_path)("a warm film")
        kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert b"[key]" in kept
        assert part.encode() not in kept

    def test_a_placeholder_for_a_key_is_no_part_of_an_answer(self, monkeypatch):
        """Servers of one's own take any key, such as 1; the labels are 0 and 1."""
        monkeypatch.setenv("PLANTED_KEY", "1")
        with hostile_server(lambda body: Sent.of(sound(body))) as url:
            named = classifier(url, {"key_variable": "PLANTED_KEY"}).answer([TEXT])
        with hostile_server(lambda body: Sent.of(sound(body))) as url:
            assert named.tolist() == classifier(url).answer([TEXT]).tolist()


def raised(error: BaseException | None) -> Iterator[BaseException]:
    """An exception, and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


NESTED = b"[" * 300_000
ODD = {
    "bad gzip": Sent(b"\x1f\x8b nonsense", headers=GZIP),
    "cut gzip": Sent(Sent.of({"a": 1}).packed().body[:-9], headers=GZIP),
    "no gzip": Sent(b"{}", headers=GZIP),
    "other packing": Sent(b"{}", headers={"Content-Encoding": "br"}),
    "nested": Sent(NESTED + b"]" * 300_000),
    "nested less": Sent(b'{"choices": [{"message": ' + b"[" * 800 + b"]" * 800 + b"}]}"),
    "nested, never closed": Sent(NESTED),
    "nested, 400": Sent(NESTED[:40_000] + b"]" * 40_000, 400),
    "nested, 500": Sent(NESTED, 500),
    "digits": Sent(b'{"choices": ' + b"9" * 5000 + b"}"),
    "charset": Sent(b"{}", headers={"Content-Type": "application/json; charset=zlib"}),
    "utf-16": Sent("{]".encode("utf-16")),
    "halves": Sent(b'{"\\ud800": "\\udfff"}', 400),
    "retry": Sent(b"{}", 503, {"Retry-After": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"}),
}


@pytest.mark.parametrize("sent", ODD.values(), ids=ODD)
def test_whatever_is_sent_is_one_clear_line(sent):
    with hostile_server(lambda _body: sent) as url, pytest.raises(ModelError) as caught:
        classifier(url).answer([TEXT])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


NO_LOGS = [1000, 0.5, 10**4000, True, float("inf")]


@pytest.mark.parametrize("log", NO_LOGS, ids=lambda log: str(log)[:6])
@pytest.mark.parametrize("kind", ["chat", "completions"])
def test_log_probabilities_that_are_none_are_refused_and_not_kept(log, kind, tmp_path):
    server = ApiServer(listed=lambda logs: [("0", logs[0]), ("1", log)])

    class Store:
        def find(self, keys):
            return {}

        def keep(self, key, answer):
            raise AssertionError(answer)

    with hostile_server(lambda body: Sent.of(server._answer(body))) as url:
        model = classifier(url, kind=kind)
        model.use(Store())
        with pytest.raises(ModelError, match="as the log-probability of '1', which is none") as c:
            model.answer([TEXT])
    assert len(str(c.value)) < 500


@pytest.mark.parametrize("log", NO_LOGS, ids=lambda log: str(log)[:6])
@pytest.mark.parametrize("where", ["token_logprobs", "top_logprobs"])
def test_so_are_those_of_an_answer(log, where):
    def respond(body):
        answer = ScoringServer()._answer(body)
        listed = answer["choices"][0]["logprobs"]
        listed[where] = [
            None,
            *([log] if where == "token_logprobs" else [{"a": log, "b": None}])
            * (len(listed["tokens"]) - 1),
        ]
        return Sent.of(answer)

    with hostile_server(respond) as url:
        model = RemoteAnswerModel(f"{url}/v1", "planted", connection=Connection(**CONNECTION))
        if where == "top_logprobs":  # it only says whether tokens are the likeliest
            assert model.asking("It was warm.", "How was it?", answer="good").reply == "good"
            return
        with pytest.raises(ModelError, match="which is none: give another answer") as caught:
            model.asking("It was warm.", "How was it?", answer="good")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("text", [None, 5, ["a"]])
def test_an_own_answer_that_is_no_text_is_refused(text):
    with hostile_server(lambda _body: Sent.of({"choices": [{"text": text}]})) as url:
        model = RemoteAnswerModel(f"{url}/v1", "planted", connection=Connection(**CONNECTION))
        with pytest.raises(ModelError, match="check the address"):
            model.asking("It was warm.", "How was it?")


@pytest.mark.parametrize(
    "scores",
    [
        [0.5, 10**400],
        [{"label": ["bad"], "score": 0.5}, {"label": "good", "score": 0.5}],
        [{"label": "bad", "score": 10**400}, {"label": "good", "score": 0.5}],
    ],
    ids=["number", "label", "score"],
)
def test_scores_that_are_none_are_refused(scores):
    with hostile_server(lambda _body: Sent.of(scores)) as url:
        model = JsonClassifier(
            url, {"text": "{text}"}, ["bad", "good"], connection=Connection(**CONNECTION)
        )
        with pytest.raises(ModelError, match="cannot be found: check request, response and labels"):
            model.answer([TEXT])


@pytest.mark.parametrize(
    "header", ["inf", "1e400", "nan", "Wed, 21 Oct 9999 23:59:59 -2359", "\x00"]
)
def test_odd_pauses_are_numbers_or_none(header):
    seconds = seconds_to_wait(header, datetime.now(UTC))
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize("given", [10**400, 1e300, True, "5", float("nan")])
def test_numbers_that_are_none_are_refused_in_one_line(given):
    with pytest.raises(InputError, match="max_calls is") as caught:
        Spending(max_calls=given)
    assert len(str(caught.value)) < 200
    with pytest.raises(InputError, match="timeout is"):
        Connection(timeout=given)
