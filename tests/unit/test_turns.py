import contextvars
import signal
import threading

import pytest
import torch

from slalom_xai.queries.many_texts import Job, take_turns


def adding(start, times):
    """A job that asks for the double of a number, again and again."""

    def work(ask):
        number = start
        for _ in range(times):
            number = ask(number)
        return number

    return work


def doubled(requests):
    return [2 * request for request in requests]


def test_each_job_gets_its_own_answers_and_all_that_wait_are_answered_at_once():
    rounds = []

    def answer(requests):
        rounds.append(list(requests))
        return doubled(requests)

    found = dict(
        take_turns(
            [Job(adding(start, times), 1) for start, times in ((1, 3), (10, 1), (100, 0), (3, 2))],
            answer,
            room=100,
        )
    )
    assert found == {0: 8, 1: 20, 2: 100, 3: 12}
    assert [sorted(requests) for requests in rounds if requests] == [[1, 3, 10], [2, 6], [4]]


def test_jobs_under_way_stay_within_the_room_unless_one_alone_is_larger():
    under_way = []

    def answer(requests):
        under_way.append(len(requests))
        return doubled(requests)

    weights = [3, 3, 3, 20, 1]
    found = dict(take_turns([Job(adding(1, 2), weight) for weight in weights], answer, room=6))
    assert found == dict.fromkeys(range(5), 4)
    assert max(under_way) == 2


def test_an_error_among_the_answers_meets_the_job_that_asked():
    def answer(requests):
        return [ValueError("odd") if request % 2 else 2 * request for request in requests]

    found = dict(take_turns([Job(adding(start, 1), 1) for start in (1, 2)], answer, room=10))
    assert isinstance(found[0], ValueError)
    assert found[1] == 4


def test_an_interruption_leaves_no_job_behind():
    def answer(requests):
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        list(take_turns([Job(adding(1, 1), 1) for _ in range(5)], answer, room=10))
    for thread in set(threading.enumerate()) - before:
        thread.join()  # a job that was left waiting would never end


def test_an_interruption_while_a_job_runs_leaves_no_job_behind():
    begun = []

    def work(ask):
        ask(0)
        begun.append(None)
        if len(begun) == 2:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        return ask(0)

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        list(take_turns([Job(work, 1) for _ in range(5)], doubled, room=10))
    for thread in set(threading.enumerate()) - before:
        thread.join()


def test_threads_serve_one_job_after_another_and_end_with_the_caller():
    seen = []

    def work(ask):
        seen.append(threading.current_thread())
        return ask(0)

    before = set(threading.enumerate())
    turns = take_turns([Job(work, 1) for _ in range(6)], doubled, room=2)
    found = [next(turns) for _ in range(5)]
    assert len(set(seen)) <= 4
    turns.close()
    assert [number for number, _ in found] == list(range(5))
    assert set(threading.enumerate()) == before


def test_a_job_does_not_see_what_one_before_it_left_behind():
    number = contextvars.ContextVar("number", default=0)

    def work(ask):
        found = number.get(), torch.is_grad_enabled()
        number.set(1)
        torch.set_grad_enabled(False)
        ask(0)
        return found

    found = dict(take_turns([Job(work, 1) for _ in range(4)], doubled, room=1))
    assert set(found.values()) == {(0, True)}
