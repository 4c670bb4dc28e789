"""One set of options, from which the arguments, the command line and the server are made."""

import inspect
import pickle

import pytest
from typer.main import get_command

from slalom_xai import Explainer
from slalom_xai.cli.command import app
from slalom_xai.errors import InputError
from slalom_xai.options import ExplainOptions, TextOptions
from slalom_xai.serve.schema import JobRequest

SHARED = set(ExplainOptions.model_fields) - {"seed", "remote"}


def test_explainer_takes_every_option_with_the_same_default():
    arguments = inspect.signature(Explainer).parameters
    options = ExplainOptions()
    assert {name: arguments[name].default for name in SHARED} == {
        name: getattr(options, name) for name in SHARED
    }
    assert arguments["random_state"].default == options.seed


def test_the_command_offers_the_options_with_their_help_and_defaults():
    offered = {option.name: option for option in get_command(app).commands["explain"].params}
    for name, field in ExplainOptions.model_fields.items():
        if field.description is not None:
            assert offered[name].help == field.description
            assert offered[name].default == field.default


def test_the_server_takes_what_explains_one_text():
    assert TextOptions.model_fields.keys() <= JobRequest.model_fields.keys()
    assert JobRequest(model="m", text="fine").model_dump(include=set(TextOptions.model_fields)) == (
        TextOptions().model_dump()
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"granularity": "letter"}, "unknown granularity 'letter': choose one of token, type"),
        ({"removal": "burn"}, "unknown removal 'burn': choose one of auto, hide"),
        ({"budget": 0}, "budget is 0: give a whole number of model calls"),
        ({"seed": -1}, "seed is -1: give a whole number from 0"),
        ({"seed": True}, "seed is True: give a whole number from 0"),
        ({"budgett": 3}, "unknown option budgett"),
        ({"truncation": "perhaps"}, "truncation is 'perhaps'"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_in_one_line(given, message):
    with pytest.raises(InputError, match=message) as refused:
        ExplainOptions(**given)
    assert "\n" not in str(refused.value)


def test_options_go_to_other_processes_and_compare_by_what_they_say():
    options = ExplainOptions(model="bundled", labels=("a", "b"), budget=70)
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.model is None
    assert options.replace(budget=80) != options
    assert options.replace(model="embedded") == options
