"""Settings of the whole process: held while somebody needs them, then the user's again."""

import csv
import logging
import threading

import pytest
import torch

from slalom_xai.models.hub import hide_loading_messages
from slalom_xai.models.transformers import TENSOR_CORES
from slalom_xai.system.switches import Switch


class Setting:
    """A setting that remembers what was written."""

    def __init__(self, value):
        self.value, self.written = value, []

    def read(self):
        return self.value

    def write(self, value):
        self.value = value
        self.written.append(value)


def test_a_setting_is_changed_once_and_given_back_once_however_deep():
    setting = Setting("user's")
    switch = Switch(setting.read, setting.write, "ours")
    with switch.held():
        with switch.held():
            assert setting.value == "ours"
        assert setting.value == "ours"
    assert setting.written == ["ours", "user's"]


def test_threads_that_overlap_give_back_the_users_value():
    setting = Setting("user's")
    switch = Switch(setting.read, setting.write, "ours")
    first_in, second_in, first_out = (threading.Event() for _ in range(3))
    seen = []

    def first():
        with switch.held():
            first_in.set()
            second_in.wait(10)
        first_out.set()

    def second():
        first_in.wait(10)
        with switch.held():
            second_in.set()
            first_out.wait(10)
            seen.append(setting.value)

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["ours"]
    assert setting.written == ["ours", "user's"]


def test_many_threads_always_find_the_value_they_need():
    setting = Setting(1)
    switch = Switch(setting.read, setting.write, 2)
    together = threading.Barrier(8)
    wrong = []

    def work():
        together.wait(10)
        for _ in range(300):
            with switch.held(), switch.held():
                if setting.value != 2:
                    wrong.append(setting.value)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert setting.value == 1


def test_an_error_gives_the_setting_back():
    setting = Setting("user's")
    with (
        pytest.raises(ValueError, match="oops"),
        Switch(setting.read, setting.write, "ours").held(),
    ):
        raise ValueError("oops")
    assert setting.value == "user's"


def test_what_the_user_sets_meanwhile_stays():
    setting = Setting("user's")
    with Switch(setting.read, setting.write, "ours").held():
        setting.value = "new"
    assert setting.value == "new"


def test_the_precision_of_matrices_is_given_back():
    before = torch.get_float32_matmul_precision()
    with TENSOR_CORES.held():
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def test_loaders_are_quiet_in_overlapping_threads_and_talk_again_afterwards():
    from transformers.utils import logging as library

    before = library.get_verbosity()
    library.set_verbosity_info()
    bars = library.is_progress_bar_enabled()
    try:
        inside = threading.Barrier(2)

        def load(hold):
            with hide_loading_messages():
                inside.wait(10)
                assert library.get_verbosity() == logging.ERROR
                assert not library.is_progress_bar_enabled()
                hold.wait(10)

        first, second = threading.Event(), threading.Event()
        threads = [threading.Thread(target=load, args=(hold,)) for hold in (first, second)]
        for thread in threads:
            thread.start()
        for thread, hold in zip(threads, (first, second), strict=True):
            hold.set()
            thread.join()
        assert library.get_verbosity() == logging.INFO
        assert library.is_progress_bar_enabled() == bars
    finally:
        library.set_verbosity(before)


def test_the_longest_field_of_csv_is_the_users_again_after_a_table_is_read(tmp_path):
    from slalom_xai.data.tables import read_table

    before = csv.field_size_limit()
    file = tmp_path / "texts.csv"
    file.write_text("text,label\n" + "word " * 50_000 + ",1\n")
    read_table(file)
    assert csv.field_size_limit() == before
