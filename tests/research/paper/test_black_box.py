"""``python -m research black-box``, with a server in this process."""

import json

import pytest
from api_servers import ApiServer

from research.base import Settings
from research.command import check_ready
from research.paper.black_box import SYSTEM, Size, outcome, study
from research.paper.fig_5 import NEGATIVE, POSITIVE
from research.registry import experiments
from research.report import save
from slalom_xai.errors import InputError

pytestmark = pytest.mark.usefixtures("own_cache")
SMALL = Size(reviews=6, words=20, calls=260)


def mood(text):
    """Good words less bad ones."""
    words = [word.strip(".,?!").lower() for word in text.split()]
    return float(sum(word in POSITIVE for word in words) - sum(word in NEGATIVE for word in words))


@pytest.fixture
def told(tmp_path):
    """Settings with reviews and a server."""
    rows = [("a beautiful and energetic film", 1), ("a bad and horrible film", 0)] * 4
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    (tmp_path / "imdb_test.jsonl").write_text("\n".join(lines))
    return Settings(
        data=tmp_path, store=tmp_path / "store", api="http://localhost/v1", api_model="planted"
    )


def test_a_planted_server_is_classified_and_explained(told, tmp_path):
    server = ApiServer(log_odds=mood)
    found = study(told, SMALL, server.transport)
    made = outcome(found)
    accuracy = made.tables["model"].set_index("quantity")["ours"]
    assert accuracy["accuracy without examples"] == 1.0
    assert accuracy["AU-ROC of its log odds"] == 1.0
    words = made.tables["words"].set_index("word")["value"]
    assert min(words[list(POSITIVE)]) > max(words[list(NEGATIVE)])
    assert all(check.holds for check in made.checks)
    assert server.requests[0]["messages"][0] == {"role": "system", "content": SYSTEM}
    assert save(experiments()["black-box"], made, tmp_path / "out")
    asked = len(server.requests)
    assert asked <= SMALL.most_calls
    assert study(told, SMALL, server.transport) == found  # from the store
    assert len(server.requests) == asked


def test_without_a_server_it_says_what_is_missing(told):
    bare = Settings(data=told.data)
    with pytest.raises(InputError, match=r"black-box asks a language model on a server.*--api URL"):
        check_ready(experiments()["black-box"], bare, yes=False)


def test_groups_leave_it_out_where_no_server_is_given(reproduce, told):
    done = reproduce("experiments", "--data", told.data / "nothing")
    assert done.returncode == 1
    assert "black-box is left out: it needs a server, given by --api" in done.stderr
