"""A model that several files of tests explain a table with."""

import pytest
from tiny import tiny


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    network, tokenizer = tiny("bert")
    network.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
