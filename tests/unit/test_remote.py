"""Models behind an API, asked through a server that is known and fails as it is told."""

from __future__ import annotations

import itertools
import json
import logging
import math
import random
import threading
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest
from api_servers import LABELS, PROMPT, ApiServer, Fault, planted_log_odds
from fakes import word_scores
from loops import run_apart

from slalom_xai import Explainer, Explanation
from slalom_xai.errors import BudgetError, InputError, ModelError, ServiceError, SlalomError
from slalom_xai.models.remote import Connection, Price, RemoteClassifier, Spending, Waiting
from slalom_xai.models.remote.failures import seconds_to_wait
from slalom_xai.system.progress import shown_by

pytestmark = pytest.mark.usefixtures("own_cache")

QUICK = Waiting(first=0.001, longest=0.002, jitter=0.001)
TEXT = "a slow start and then a warm film"
KEY = "sk-planted-0123456789"


def connection(**options) -> Connection:
    return Connection(**{"waiting": QUICK, "retries": 40, **options})


def classifier(server: ApiServer, **options) -> RemoteClassifier:
    options.setdefault("connection", connection())
    options.setdefault("prompt", PROMPT)
    options.setdefault("labels", LABELS)
    return RemoteClassifier("http://localhost/v1", "planted", transport=server.transport, **options)


def explained(server: ApiServer, text: str = TEXT, budget: int = 60, **options) -> Explanation:
    return Explainer(classifier(server, **options), budget=budget)(text)


def same(one: Explanation, other: Explanation) -> bool:
    return one.values.tolist() == other.values.tolist() and (
        one.importances.tolist() == other.importances.tolist()
    )


@pytest.fixture(scope="module")
def undisturbed() -> Explanation:
    return explained(ApiServer())


def test_a_planted_server_is_explained_by_its_own_values(undisturbed):
    values = [word_scores(word)[0] for word in TEXT.split()]
    weights = np.log([word_scores(word)[1] for word in TEXT.split()])
    np.testing.assert_allclose(undisturbed.values, values, atol=0.01)
    np.testing.assert_allclose(undisturbed.importances, weights - weights.mean(), atol=0.01)
    assert undisturbed.prediction == pytest.approx(planted_log_odds(TEXT))
    assert undisturbed.model == "planted at localhost"
    assert not [note for note in undisturbed.notes if "noisy" in note or "bound" in note]


def test_completions_give_the_same_as_chats(undisturbed):
    server = ApiServer()
    assert same(explained(server, kind="completions"), undisturbed)
    assert "prompt" in server.requests[0]


def test_one_token_is_asked_for_with_the_labels_log_probabilities():
    server = ApiServer()
    classifier(server, system="Be brief.").answer([TEXT])
    assert server.requests == [
        {
            "model": "planted",
            "max_tokens": 1,
            "temperature": 0,
            "logprobs": True,
            "top_logprobs": 20,
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": PROMPT.replace("{text}", TEXT)},
            ],
        }
    ]


def test_rows_are_sent_in_an_order_that_prefix_caches_profit_from():
    server = ApiServer()
    model = classifier(server, connection=connection(concurrency=1))
    rows = ["b a", "a b", "b", "a"]
    answers = model.answer(rows)
    assert server.texts == sorted(rows)
    odds = [planted_log_odds(row) for row in rows]
    assert (answers[:, 1] - answers[:, 0]).tolist() == pytest.approx(odds)


@pytest.mark.parametrize(
    "fault",
    [
        Fault(drop=True),
        Fault(delay=0.002),
        Fault(429),
        Fault(429, {"Retry-After": "0.003"}),
        Fault(429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}),
        Fault(500),
        Fault(503, body="<html>busy</html>"),
        Fault(body='{"choices": [{"mess'),
    ],
    ids=["drop", "delay", "429", "429-seconds", "429-date", "500", "503", "cut-off"],
)
def test_an_explanation_survives_what_goes_wrong_on_the_way(fault, undisturbed):
    server = ApiServer(faults=itertools.cycle([None, fault]))
    assert same(explained(server), undisturbed)


def test_no_more_requests_are_in_flight_than_agreed(undisturbed):
    drawn = random.Random(0)
    server = ApiServer(faults=(Fault(delay=drawn.random() / 500) for _ in range(1000)))
    disturbed = explained(server, connection=connection(concurrency=3))
    assert same(disturbed, undisturbed)
    assert server.most_in_flight == 3


def test_a_server_that_asks_for_a_pause_gets_it():
    assert seconds_to_wait("1.5", datetime.now(UTC)) == 1.5
    now = datetime(2015, 10, 21, 7, 27, 30, tzinfo=UTC)
    assert seconds_to_wait("Wed, 21 Oct 2015 07:28:00 GMT", now) == 30
    assert seconds_to_wait("soon", now) is None
    assert seconds_to_wait(None, now) is None
    server = ApiServer(faults=[Fault(429, {"Retry-After": "3600"})])
    with pytest.raises(
        ServiceError, match="is busy and asks to wait 3600 seconds, which takes more than 300"
    ):
        classifier(server).answer([TEXT])
    assert len(server.requests) == 1


def test_a_server_that_never_answers_is_given_up():
    server = ApiServer(faults=itertools.repeat(Fault(500)))
    model = classifier(server, connection=connection(retries=2))
    with pytest.raises(ServiceError, match=r"in 3 tries \(the last time: status 500"):
        Explainer(model, budget=60)(TEXT)
    assert len(server.requests) == 3


def test_a_busy_server_makes_requests_take_turns(undisturbed):
    """One in four requests is let through: a request is refused more often than it may fail."""
    faults = itertools.cycle([*[Fault(429, {"Retry-After": "0.001"})] * 3, None])
    server = ApiServer(faults=faults)
    assert same(explained(server, connection=connection(retries=0)), undisturbed)


def test_a_server_that_stays_busy_is_given_up():
    server = ApiServer(faults=itertools.repeat(Fault(429)))
    impatient = Waiting(first=0.001, longest=0.002, jitter=0.001, patience=0.02)
    with pytest.raises(ServiceError, match="planted at localhost is busy"):
        classifier(server, connection=connection(waiting=impatient)).answer([TEXT])


def test_a_time_out_is_a_failure_like_others():
    class Silent(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            raise httpx.ReadTimeout("too slow", request=request)

    model = RemoteClassifier(
        "http://localhost/v1",
        "planted",
        LABELS,
        PROMPT,
        connection=connection(retries=1),
        transport=Silent(),
    )
    with pytest.raises(ServiceError, match="ReadTimeout: too slow"):
        model.answer([TEXT])
    assert model.spending.calls == 2  # both may have been billed


def test_spaces_before_labels_are_taken_off_and_variants_summed():
    def listed(logs):
        halves = [log - math.log(2) for log in logs]
        return [("0", halves[0]), (" 0", halves[0]), ("\u01201", halves[1]), ("\u25811", halves[1])]

    rows = [TEXT, "warm film"]
    plain = classifier(ApiServer()).answer(rows)
    assert classifier(ApiServer(listed=listed)).answer(rows).tolist() == [
        pytest.approx(row) for row in plain.tolist()
    ]


def test_a_label_that_is_not_listed_is_a_bound_and_the_result_says_so():
    def listed(logs):  # the less likely label is cut off where it is below a tenth
        tokens = [("0", logs[0]), ("1", logs[1]), ("x", math.log(0.005)), ("y", math.log(0.003))]
        return [pair for pair in tokens if pair[0] in "xy" or pair[1] > math.log(0.1)]

    model = classifier(ApiServer(listed=listed, log_odds=lambda _text: 4.0))
    low, high = model.answer([TEXT])[0].tolist()
    assert low == pytest.approx(math.log(0.003))  # below the last one listed
    assert high == pytest.approx(math.log(0.99) - math.log1p(math.exp(-4)))
    mixed = explained(ApiServer(listed=listed, log_odds=lambda text: planted_log_odds(text) * 3))
    (note,) = [note for note in mixed.notes if "bounds" in note]
    assert f"of {mixed.calls} answers" in note


def test_a_bound_is_no_larger_than_what_is_left_over():
    model = classifier(ApiServer(listed=lambda _logs: [("1", math.log(0.95))]))
    assert model.answer([TEXT])[0].tolist() == pytest.approx([math.log(0.05), math.log(0.95)])


def test_placeholders_for_very_unlikely_are_not_taken_for_numbers():
    listed = [("1", math.log(0.9)), ("x", math.log(0.01)), ("0", -9999.0)]
    model = classifier(ApiServer(listed=lambda _logs: listed))
    assert model.answer([TEXT])[0].tolist() == pytest.approx([math.log(0.01), math.log(0.9)])


@pytest.mark.parametrize(
    ("server", "options", "message"),
    [
        (
            ApiServer(faults=[Fault(401)]),
            {},
            "planted at localhost refused the request: the environment variable NO_SUCH_VARIABLE "
            "is not set",
        ),
        (
            ApiServer(faults=[Fault(404, body='{"detail": "no model planted"}')]),
            {},
            "was not found (it says 'no model planted'): check the address and the name",
        ),
        (
            ApiServer(faults=[Fault(400, body='{"error": {"message": "context length is 9"}}')]),
            {},
            "does not read so long a text (it says 'context length is 9')",
        ),
        (
            ApiServer(faults=[Fault(400, body='{"message": "logprobs are not supported"}')]),
            {},
            "gives no log-probabilities (it says",
        ),
        (
            ApiServer(faults=[Fault(429, body='{"error": "You exceeded your current quota"}')]),
            {},
            "the account is used up",
        ),
        (ApiServer(logprobs=False), {}, "returned '1' and no log-probabilities"),
        (ApiServer(faults=[Fault(body="[1]")]), {}, 'which has no "choices"'),
        (
            ApiServer(listed=lambda _logs: [("yes", -0.1), ("no", -3.0)]),
            {},
            "lists neither '0' nor '1' among the 2 likeliest tokens",
        ),
        (
            ApiServer(listed=lambda _logs: [("<think>", -0.1), ("no", -3.0)]),
            {},
            "it reasons first; switch that off",
        ),
        (
            ApiServer(listed=lambda _logs: [("posit", -0.1), ("neg", -3.0)]),
            {"labels": {"bad": "negative", "good": "positive"}},
            "lists 'neg' and not 'negative': the label seems to be several tokens",
        ),
    ],
    ids=["key", "model", "long", "refused", "quota", "text", "json", "never", "think", "tokens"],
)
def test_what_cannot_be_explained_is_one_clear_line(server, options, message):
    given = connection(key_variable="NO_SUCH_VARIABLE")
    with pytest.raises(ModelError) as caught:
        Explainer(classifier(server, connection=given, **options), budget=60)(TEXT)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1  # nothing is tried again in vain


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "Good or bad?"}, r"does not say where the text goes: put \{text\} there"),
        ({"labels": {"good": "1"}}, "give two or more names"),
        ({"labels": {"good": "1", "bad": " 1"}}, "two labels are '1'"),
        ({"kind": "talk"}, "unknown kind 'talk': choose one of chat, completions"),
        ({"samples": 1}, "samples is 1: give a whole number of at least 2"),
        ({"top": 0}, "top is 0"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_sent(options, message):
    server = ApiServer()
    with pytest.raises(InputError, match=message):
        classifier(server, **options)
    assert server.requests == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("localhost:8000", "give that of a server, such as http://localhost:8000/v1"),
        ("http://me:secret@localhost/v1", "leave them out, and put the key into"),
        ("http://example.org/v1", "would be sent to example.org unencrypted"),
    ],
)
def test_addresses_are_checked(url, message, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(InputError, match=message) as caught:
        RemoteClassifier(url, "planted", LABELS)
    assert "secret" not in str(caught.value)


def test_an_address_may_name_the_endpoint():
    server = ApiServer()
    RemoteClassifier(
        "http://localhost/v1/completions", "m", LABELS, PROMPT, transport=server.transport
    ).answer([TEXT])
    assert "prompt" in server.requests[0]


class TestSpending:
    def test_calls_and_tokens_are_counted_and_priced(self):
        server = ApiServer()
        spending = Spending(price=Price(2.0, 10.0))
        classifier(server, spending=spending).answer(["warm", "film"])
        read = sum(len(str(body)) // 4 for body in server.requests)
        assert (spending.calls, spending.read, spending.written) == (2, read, 2)
        assert spending.cost == pytest.approx((2 * read + 10 * 2) / 1e6)

    @pytest.mark.parametrize("cap", [1, 7, 30])
    def test_a_cap_of_calls_is_never_passed(self, cap):
        faults = itertools.cycle([None, Fault(500), Fault(429), Fault(drop=True)])
        server = ApiServer(faults=faults)
        spending = Spending(max_calls=cap)
        with pytest.raises(
            BudgetError, match=f"max_calls={cap} allows no further call after {cap} calls"
        ):
            explained(server, spending=spending)
        assert server.billed == cap

    @pytest.mark.parametrize("cap", [0.001, 0.01])
    @pytest.mark.parametrize("usage", [True, False])
    def test_a_cap_of_costs_is_never_passed(self, cap, usage):
        server = ApiServer(usage=usage, faults=itertools.cycle([None, Fault(delay=0.001)]))
        spending = Spending(price=Price(5.0), max_cost=cap)
        with pytest.raises(BudgetError, match=f"max_cost={cap} allows no further call after"):
            explained(server, spending=spending)
        tokens = sum(len(str(body)) // 4 + 1 for body in server.requests)
        assert tokens * 5e-6 <= spending.cost + 1e-12 <= cap + 1e-12
        assert server.billed == spending.calls

    def test_what_was_paid_before_a_cap_is_not_paid_again(self, undisturbed):
        server = ApiServer()
        spending = Spending(max_calls=20)
        model = classifier(server, spending=spending)
        with pytest.raises(BudgetError):
            Explainer(model, budget=60)(TEXT)
        spending.max_calls = None
        assert same(Explainer(model, budget=60)(TEXT), undisturbed)
        assert (
            len(server.requests) == len(set(server.texts)) + 1
        )  # the whole text: twice, for noise

    def test_a_progress_bar_has_a_running_total(self):
        class Display:
            def __init__(self):
                self.labels = []

            def show(self, done, total, label):
                self.labels.append(label)

        free, paid = Display(), Display()
        with shown_by(free):
            explained(ApiServer())
        spending = Spending(price=Price(1000.0))
        with shown_by(paid):
            explained(ApiServer(), spending=spending, options={"seed": 1})
        counts = [
            int(label.partition("(")[2].partition(" calls")[0])
            for label in paid.labels
            if "calls" in label
        ]
        assert counts == sorted(counts)
        assert len({*counts}) > 20
        assert paid.labels[-1] == f"fitting ({spending.calls} calls, cost {spending.cost:.2f})"
        assert free.labels[-1] == f"fitting ({spending.calls} calls)"

    def test_a_server_that_says_nothing_of_tokens_counts_with_the_most(self):
        spending = Spending(price=Price(1.0))
        classifier(ApiServer(usage=False), spending=spending).answer([TEXT])
        assert spending.guessed == 1
        assert "at most" in str(spending)

    @pytest.mark.parametrize("given", ["", "1,2,3", "free", "-1", "nan"])
    def test_prices_that_are_none_are_refused(self, given):
        with pytest.raises(InputError, match="price is"):
            Price.parsed(given)

    def test_a_cap_of_costs_needs_a_price(self):
        with pytest.raises(InputError, match="max_cost is given without a price"):
            Spending(max_cost=1.0)


class TestStores:
    def test_each_answer_is_kept_when_it_comes_and_asked_for_first(self, tmp_path, undisturbed):
        first = ApiServer()
        model = classifier(first, spending=Spending(max_calls=25))
        model.use(FileStore(tmp_path / "answers.jsonl"))
        with pytest.raises(BudgetError):
            Explainer(model, budget=60, cache=False)(TEXT)
        assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == first.billed == 25
        second = ApiServer()
        again = classifier(second)
        again.use(FileStore(tmp_path / "answers.jsonl"))
        assert same(Explainer(again, budget=60, cache=False)(TEXT), undisturbed)
        assert not {text for text in first.texts if first.texts.count(text) == 1} & {*second.texts}

    def test_a_store_does_not_hide_noise(self, tmp_path):
        drawn = random.Random(0)
        server = ApiServer(log_odds=lambda text: planted_log_odds(text) + drawn.gauss(0, 0.3))
        model = classifier(server, connection=connection(concurrency=1))
        model.use(FileStore(tmp_path / "answers.jsonl"))
        noisy = Explainer(model, budget=120, cache=False)(TEXT)
        assert any("The model is noisy" in note for note in noisy.notes)
        whole = server.texts.count(TEXT)
        assert whole >= 4
        asked = len(server.requests)
        repeated = Explainer(model, budget=120, cache=False)(TEXT)
        assert same(repeated, noisy)
        assert len(server.requests) == asked  # all of it came from the store

    def test_a_fingerprint_holds_all_that_decides_an_answer_and_no_key(self, monkeypatch):
        def fingerprint(**options):
            return classifier(ApiServer(), **options).fingerprint

        plain = fingerprint()
        others = [
            {"prompt": "{text}?"},
            {"labels": {"bad": "0", "good": "2"}},
            {"kind": "completions"},
            {"system": "Be brief."},
            {"top": 5},
            {"samples": 3},
            {"options": {"seed": 1}},
        ]
        assert len({plain, *(fingerprint(**options) for options in others)}) == 1 + len(others)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert fingerprint() == plain


class FileStore:
    """One line for each answer; what is written is on the disk when ``keep`` returns."""

    def __init__(self, path):
        self.path = path
        self.lock = threading.Lock()

    def find(self, keys):
        if not self.path.exists():
            return {}
        lines = [json.loads(line) for line in self.path.read_text().splitlines()]
        return {key: answer for key, answer in lines if key in set(keys)}

    def keep(self, key, answer):
        with self.lock, self.path.open("a") as file:
            file.write(json.dumps([key, answer]) + "\n")


class TestSamples:
    def test_labels_only_are_counted_and_the_result_says_so(self):
        drawn = random.Random(0)

        def write(text):
            chance = 1 / (1 + math.exp(-planted_log_odds(text)))
            return "1." if drawn.random() < chance else "0"

        server = ApiServer(logprobs=False, write=write)
        model = classifier(server, samples=12, connection=connection(concurrency=1))
        sampled = Explainer(model, budget=40)("a warm film")
        assert len(server.requests) == 12 * sampled.calls
        assert "logprobs" not in server.requests[0]
        assert server.requests[0]["temperature"] == 1
        assert any("estimated from 12 draws" in note for note in sampled.notes)
        assert sampled.prediction == pytest.approx(planted_log_odds("a warm film"), abs=1.0)

    def test_one_label_in_all_draws_is_a_large_but_finite_number(self):
        model = classifier(ApiServer(logprobs=False, write=lambda _text: "1"), samples=9)
        low, high = model.answer([TEXT])[0].tolist()
        assert high - low == pytest.approx(math.log(9.5 / 0.5))

    def test_an_answer_that_is_no_label_is_refused_or_left_out(self):
        model = classifier(ApiServer(logprobs=False, write=lambda _text: "perhaps"), samples=3)
        with pytest.raises(ModelError, match=r"answered 'perhaps' .* and none of the labels"):
            model.answer([TEXT])
        written = itertools.cycle(["1", "0", "10 of 10"])
        model = classifier(ApiServer(logprobs=False, write=lambda _text: next(written)), samples=3)
        assert model.answer([TEXT])[0].tolist() == pytest.approx([math.log(0.5)] * 2)
        (note,) = model.notes_on([hash(TEXT)])
        assert note.startswith("1 of 3 draws (33%) were none of the labels")


class TestKeys:
    @pytest.mark.parametrize(
        "fault",
        [
            None,
            Fault(401),
            Fault(400),
            Fault(500),
            Fault(302, {"Location": f"/{KEY}"}),
            Fault(body=f"{KEY} is no JSON"),
            Fault(drop=True),
        ],
        ids=["none", "401", "400", "500", "redirect", "json", "drop"],
    )
    def test_a_key_appears_nowhere(self, fault, tmp_path, monkeypatch, caplog, capfd):
        monkeypatch.setenv("PLANTED_KEY", KEY)
        server = ApiServer(faults=itertools.cycle([None, fault]), echo=True)
        given = connection(key_variable="PLANTED_KEY", retries=1, concurrency=1)
        model = classifier(server, connection=given)
        said = [repr(model), str(vars(model)), str(vars(model._sender)), model.fingerprint]
        with caplog.at_level(logging.DEBUG):
            try:
                Explainer(model, budget=60)("a warm film").save(tmp_path / "explanation.json")
            except SlalomError as error:
                said += told(error)
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
        files = [file for file in tmp_path.rglob("*") if file.is_file()]  # the cache is among them
        said += [file.read_bytes().decode("latin-1") for file in files]
        said += [caplog.text, str([vars(record) for record in caplog.records]), *capfd.readouterr()]
        assert not [text for text in said if KEY in text]

    def test_another_header_carries_the_key_as_it_is(self, monkeypatch):
        monkeypatch.setenv("PLANTED_KEY", f" {KEY}\n")
        server = ApiServer()
        given = connection(key_variable="PLANTED_KEY", key_header="api-key")
        classifier(server, connection=given).answer([TEXT])
        assert server.headers[0]["api-key"] == KEY
        assert "authorization" not in server.headers[0]

    def test_a_key_that_no_header_can_hold_is_refused_without_repeating_it(self, monkeypatch):
        monkeypatch.setenv("PLANTED_KEY", f"{KEY}\n{KEY}")
        with pytest.raises(InputError, match="the key in PLANTED_KEY has characters") as caught:
            classifier(ApiServer(), connection=connection(key_variable="PLANTED_KEY"))
        assert KEY not in str(caught.value)


def told(error: BaseException | None) -> list[str]:
    """All that an exception and those before it could tell, the variables of their frames too."""
    said = []
    while error is not None:
        said += [str(error), repr(error), str(vars(error))]
        trace = error.__traceback__
        while trace is not None:
            if "slalom_xai" in trace.tb_frame.f_code.co_filename:
                said.append(str(trace.tb_frame.f_locals))
            trace = trace.tb_next
        error = error.__cause__ or error.__context__
    return said


def test_a_result_loads_again(tmp_path, undisturbed):
    undisturbed.save(tmp_path / "explanation.json")
    assert same(Explanation.load(tmp_path / "explanation.json"), undisturbed)


def test_it_works_where_an_event_loop_runs_already():
    async def in_a_notebook():
        return classifier(ApiServer()).answer([TEXT])

    assert run_apart(in_a_notebook()).shape == (1, 2)


def test_an_interrupt_ends_the_round_and_drops_what_is_under_way():
    server = ApiServer(faults=itertools.chain([None], itertools.repeat(Fault(delay=3600))))
    model = classifier(server)

    def pressed(_rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.answer_together(["warm", "film", "warm film"], pressed)
    assert server.in_flight == 0
    assert len(server.requests) == 3
    model.answer(server.texts[:1])  # was answered before, and is kept
    assert len(server.requests) == 3


def test_a_list_of_texts_is_explained_like_each_alone(undisturbed):
    explainer = Explainer(classifier(ApiServer()), budget=60)
    both = explainer(["one odd little film", TEXT])
    assert same(both[1], undisturbed)


def test_a_server_that_fails_is_not_tried_again_for_each_text():
    server = ApiServer()
    once = connection(concurrency=1, retries=1)
    explainer = Explainer(classifier(server, connection=once), budget=60)
    explainer(TEXT)
    asked = len(server.requests)
    server._faults = itertools.repeat(Fault(500))
    with pytest.raises(ServiceError) as caught:
        explainer([TEXT, "one odd film", "two odd films", "three odd films"])
    assert len(caught.value.finished) == 1  # the first text, whose answers are kept
    assert len(server.requests) == asked + 2


def test_three_labels_are_explained():
    def listed(logs):
        return [("a", -1.0), ("b", -1.5), ("c", -2.0)]

    labels = {"one": "a", "two": "b", "three": "c"}
    model = classifier(ApiServer(listed=listed), labels=labels)
    assert model.outputs.kind == "multiclass"
    assert model.answer([TEXT])[0].tolist() == [-1.0, -1.5, -2.0]
