"""What is different where a whole table is explained."""

from slalom_xai.data.corpus import ExplainOptions
from slalom_xai.data.corpus.run import TextsDone

TEXT = "The film is slow, but both actresses are good company and the end is moving."


def test_a_table_takes_a_few_calls_for_each_word():
    explanation = ExplainOptions().load_for_table()(TEXT)
    words = len(explanation.units)
    assert 64 <= explanation.calls <= max(64, 6 * words) + 1
    assert explanation.fidelity.any.r2 > 0.5


def test_a_budget_for_a_table_is_used():
    assert ExplainOptions(budget=200).load_for_table()(TEXT).calls > 150


def test_a_run_that_nobody_watches_says_soon_how_long_it_will_take(capsys):
    now = [0.0]
    done = TextsDone(10_000, None, lines=True, clock=lambda: now[0])
    now[0] = 4.0
    done.advance(40)
    assert capsys.readouterr().err == ""
    now[0] = 6.0
    done.advance(20)
    assert capsys.readouterr().err == "60 of 10,000 texts, 10.0 a second, 0:16:34 left\n"
