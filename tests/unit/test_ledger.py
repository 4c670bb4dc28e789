"""What was spent is known to the next run, also after a kill at any moment."""

from __future__ import annotations

import json

import pytest
from loops import run_apart

from slalom_xai.errors import CapError, InputError
from slalom_xai.models.remote import Price
from slalom_xai.models.remote.spending import Ledger


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spending.jsonl"


def reserved(ledger):
    return run_apart(ledger.reserve("a prompt", 1))


def asked(ledger, times=1, usage=(10, 1)):
    for _ in range(times):
        ledger.settle(reserved(ledger), usage)


def totals(ledger):
    return ledger.calls, ledger.read, ledger.written, ledger.guessed


def test_the_next_run_knows_what_was_spent(path):
    first = Ledger(path, price=Price(2, 8))
    asked(first, 3)
    first.release(reserved(first))
    assert totals(Ledger(path)) == (3, 30, 3, 0)
    second = Ledger(path, max_calls=5)
    asked(second, 2)
    with pytest.raises(CapError, match=r"max_calls=5 allows no further call after 5 calls"):
        reserved(second)
    assert Ledger(path, price=Price(2, 8)).cost == pytest.approx((50 * 2 + 5 * 8) / 1e6)


def test_a_request_that_a_kill_left_unanswered_counts_with_the_most_it_can_cost(path):
    killed = Ledger(path)
    asked(killed, 2)
    lost = reserved(killed)
    assert totals(Ledger(path)) == (3, 20 + lost.read, 2 + lost.written, 1)
    with path.open("a") as file:
        file.write('{"answered": [264')  # a line that was cut short
    assert Ledger(path).calls == 3
    asked(Ledger(path))
    assert Ledger(path).calls == 4


def test_a_long_file_is_written_anew_with_what_is_in_flight(path):
    ledger = Ledger(path, most_lines=10)
    in_flight = [reserved(ledger), reserved(ledger)]
    asked(ledger, 20)
    assert len(path.read_text().splitlines()) < 20
    assert Ledger(path).calls == 22
    for each in in_flight:
        ledger.settle(each, (1, 1))
    assert totals(Ledger(path)) == (22, 202, 22, 0)


def test_a_file_that_is_no_ledger_is_refused(path):
    path.write_text(json.dumps({"answered": 3}) + "\n")
    with pytest.raises(InputError, match=r"nobody knows what was spent"):
        Ledger(path)
