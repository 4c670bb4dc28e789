"""Shards: they split the work, and what is no shard is refused in one line."""

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slalom_xai.errors import InputError
from slalom_xai.system.shards import Shard


@given(st.integers(1, 20), st.integers(0, 60))
def test_each_piece_belongs_to_one_shard_and_shards_are_about_equally_large(count, pieces):
    shards = [Shard.read(f"{number}/{count}") for number in range(1, count + 1)]
    owned = [[piece for piece in range(pieces) if shard.has(piece)] for shard in shards]
    assert sorted(chain.from_iterable(owned)) == list(range(pieces))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@pytest.mark.parametrize(
    "written", ["0/2", "3/2", "1/0", "1", "", "a/b", "-1/2", "1/2/3", "1/2\n", "1/" + "9" * 5000]
)
def test_what_is_no_shard_is_refused_in_one_short_line(written):
    with pytest.raises(InputError, match=r"^--shard is .*: give .* such as 3/16") as refused:
        Shard.read(written)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 250
