"""What is said where a package is missing that not everybody needs."""

from __future__ import annotations

import sys

import pytest

from slalom_xai.data.corpus.engines import on_ray
from slalom_xai.data.corpus.schema import arrow
from slalom_xai.errors import InputError, optional_package
from slalom_xai.models.remote import RemoteClassifier


def test_a_missing_package_is_named():
    with pytest.raises(InputError, match=r"pip install no_such_library$"):
        optional_package("no_such_library.attr", "this export")


@pytest.mark.parametrize(
    ("names", "use", "named", "extra"),
    [
        (
            ("httpx", "stamina"),
            lambda: RemoteClassifier("http://localhost/v1", "m", {"bad": "0", "good": "1"}),
            "a model behind an API needs the packages httpx and stamina, which",
            "api",
        ),
        (
            ("stamina",),
            lambda: RemoteClassifier("http://localhost/v1", "m", {"bad": "0", "good": "1"}),
            "a model behind an API needs the package stamina, which",
            "api",
        ),
        (("pyarrow",), arrow, "needs the package pyarrow, which", "parquet"),
        (
            ("ray",),
            lambda: next(on_ray(None, [], lambda _texts: None, 1, None)),
            "--engine ray needs the package ray, which",
            "ray",
        ),
    ],
    ids=["both", "one", "parquet", "ray"],
)
def test_what_an_extra_lacks_is_named_in_one_line(names, use, named, extra, monkeypatch):
    for name in names:
        monkeypatch.setitem(sys.modules, name, None)  # importing it fails
    with pytest.raises(InputError) as caught:
        use()
    said = str(caught.value)
    assert named in said
    assert said.endswith(f"pip install '.[{extra}]'")
    assert "\n" not in said
