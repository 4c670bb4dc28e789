"""The data set: read from files of each kind, paged by key, sorted, filtered and searched."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import threading

import pandas as pd
import pytest
from servers import until

from slalom_xai.errors import InputError
from slalom_xai.serve.data import Dataset, Prediction
from slalom_xai.serve.data.answers import is_correct
from slalom_xai.serve.data.file import DataSettings

ROWS = [
    ("A wonderful film, with a warm heart", "positive"),
    ('He said "dull", twice', "negative"),
    ("two\nlines", "positive"),
    ("", "negative"),
    ("<b>日本語</b> 🎬", None),
    ("Straße in São Paulo", "positive"),
]


def as_csv(rows, separator=","):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=separator)
    writer.writerows([("text", "label"), *((text, label or "") for text, label in rows)])
    return file.getvalue().encode()


def as_lines(rows):
    return "".join(json.dumps({"text": t, "label": label}) + "\n" for t, label in rows).encode()


def as_parquet(rows):
    file = io.BytesIO()
    pd.DataFrame(rows, columns=["text", "label"]).to_parquet(file, row_group_size=2)
    return file.getvalue()


FILES = {
    "reviews.csv": as_csv,
    "reviews.tsv": lambda rows: as_csv(rows, "\t"),
    "reviews.jsonl": as_lines,
    "reviews.ndjson": as_lines,
    "reviews.parquet": as_parquet,
    "reviews.csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    "reviews.jsonl.xz": lambda rows: lzma.compress(as_lines(rows)),
    "reviews.csv.bz2": lambda rows: bz2.compress(as_csv(rows)),
}


def loaded(path, **options):
    dataset = Dataset(path, path.parent / "kept", **options)
    dataset.prepare()
    assert dataset.load(threading.Event())
    return dataset


@pytest.mark.parametrize("name", FILES)
def test_every_kind_of_file_gives_the_same_rows(tmp_path, name):
    (tmp_path / name).write_bytes(FILES[name](ROWS))
    dataset = loaded(tmp_path / name)
    assert dataset.rows == len(ROWS)
    assert dataset.imported
    assert dataset.labels == ["negative", "positive"]
    found = [dataset.row(number) for number in range(1, len(ROWS) + 1)]
    assert [(row.text, row.label) for row in found] == ROWS
    assert dataset.row(len(ROWS) + 1) is None
    shown = dataset.page().rows
    assert [(row.text, row.label) for row in shown] == ROWS
    assert [row.row for row in shown if row.empty] == [4]


@pytest.fixture
def many(tmp_path):
    return thousand(tmp_path)


@pytest.fixture(scope="module")
def many_to_read(tmp_path_factory):
    return thousand(tmp_path_factory.mktemp("many"))


def thousand(tmp_path):
    """A thousand rows, of which a model has seen the first 900, with a tenth of them wrong."""
    rows = [
        (f"row {n} is {'wonderful' if n % 3 else 'dull'}", "positive" if n % 2 else "negative")
        for n in range(1, 1001)
    ]
    (tmp_path / "many.jsonl").write_bytes(as_lines(rows))
    dataset = loaded(tmp_path / "many.jsonl")
    names = ["negative", "positive"]
    for start in range(1, 901, 100):
        some = [
            Prediction(n, names[n % 2] if n % 10 else names[1 - n % 2], 0.5 + (n % 100) / 200)
            for n in range(start, start + 100)
        ]
        dataset.keep_predictions("m", some, label_names=names)
    return dataset


def everything(dataset, limit=70, **question):
    """All rows of a list, page by page."""
    pages = [dataset.page(limit=limit, **question)]
    while pages[-1].next is not None:
        pages.append(dataset.page(limit=limit, after=pages[-1].next, **question))
    return [row for page in pages for row in page.rows]


def reference(rows, sort, descending, wrong, label, search):
    """The same list by brute force."""
    kept = [
        row
        for row in rows
        if (not wrong or row.wrong)
        and (label is None or row.label == label)
        and (search not in ("dull", "wonder*") or search.rstrip("*") in row.text)
    ]
    keys = {
        "row": lambda row: (row.row,),
        "label": lambda row: (row.label, row.row),
        "prediction": lambda row: (row.prediction, row.row),
        "probability": lambda row: (row.probability, row.row),
        "wrong": lambda row: (not row.wrong, -row.probability, row.row),
    }
    known = [row for row in kept if sort in ("row", "label") or row.prediction is not None]
    known.sort(key=keys[sort], reverse=descending)
    return known + [row for row in kept if row not in known]


@pytest.mark.parametrize("sort", ["row", "label", "prediction", "probability", "wrong"])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    ("wrong", "label", "search"),
    [
        (False, None, ""),
        (True, None, ""),
        (False, "positive", ""),
        (True, "negative", "dull"),
        (False, None, "wonder*"),
    ],
)
def test_pages_are_the_whole_list_in_its_order(
    many_to_read, sort, descending, wrong, label, search
):
    question = {"model": "m", "sort": sort, "descending": descending, "wrong": wrong}
    found = everything(many_to_read, label=label, search=search, **question)
    whole = everything(many_to_read, model="m", limit=200)
    assert found == reference(whole, sort, descending, wrong, label, search)


def test_the_wrong_ones_come_first_the_surest_before_the_others(many_to_read):
    many = many_to_read
    rows = many.page(model="m", sort="wrong", limit=100).rows
    assert all(row.wrong for row in rows[:90])
    assert not any(row.wrong for row in rows[90:])
    shares = [row.probability for row in rows[:90]]
    assert shares == sorted(shares, reverse=True)
    page = many.page(model="m", wrong=True, limit=1)
    assert page.total == 90


def test_rows_come_once_whatever_comes_in_between_two_pages(many):
    """Predictions, and explanations that replace others, while somebody turns the pages."""
    for sort in ("probability", "fidelity", "wrong"):
        many.keep_explained("m", "row 5 is wonderful", f"a{sort}", 0.9)
        first = many.page(model="m", sort=sort, limit=100)
        many.keep_explained("m", "row 5 is wonderful", f"b{sort}", 0.1)
        many.keep_explained("m", "row 700 is wonderful", f"c{sort}", 0.5)
        unseen = many.find_unpredicted("m", 10)
        given = [Prediction(row, "positive", 0.99) for row, _ in unseen]
        many.keep_predictions("m", given, label_names=["negative", "positive"])
        rows, page = list(first.rows), first
        while page.next is not None:
            page = many.page(model="m", sort=sort, limit=100, after=page.next)
            rows += page.rows
        assert sorted(row.row for row in rows) == list(range(1, 1001))


def test_a_text_that_is_explained_shows_its_last_explanation(many):
    many.keep_explained("m", "row 9 is dull", "first", 0.25)
    many.keep_explained("m", "row 9 is dull", "second", 0.75)
    many.keep_explained("m", "row 10 is wonderful", "third", None)
    many.keep_explained("m", "not in the file", "fourth", 0.5)
    rows = many.page(model="m", sort="fidelity", limit=3).rows
    assert [(row.row, row.key, row.fidelity) for row in rows] == [
        (9, "second", 0.75),
        (10, "third", None),
        (1, None, None),
    ]
    assert many.page(model="other", limit=9).rows[8].key is None


@pytest.mark.parametrize(
    ("search", "rows"),
    [
        ("wonderful", [1]),
        ("WONDER*", [1]),
        ("wonder", []),
        ('"warm heart"', [1]),
        ('"heart warm"', []),
        ("dull twice", [2]),
        ("日本", [5]),
        ("🎬", [5]),
        ("<b>", [5]),
        ("strasse", []),
        ("straße sao", [6]),
        ('"', [1, 2, 3, 4, 5, 6]),
        ("two AND lines", []),
        ("NEAR(two lines)", []),
        ("text:two", []),
        ("% _ * ^ \0", []),
        ("", [1, 2, 3, 4, 5, 6]),
    ],
)
@pytest.mark.parametrize("word_index", [True, False])
def test_a_search_finds_words_and_is_never_a_mistake(tmp_path, search, rows, word_index):
    (tmp_path / "reviews.jsonl").write_bytes(as_lines(ROWS))
    dataset = loaded(tmp_path / "reviews.jsonl", settings=DataSettings(word_index=word_index))
    found = [row.row for row in dataset.page(search=search).rows]
    if word_index or search not in ("wonder", "strasse", "straße sao", '"'):
        assert found == rows


def test_a_cursor_of_another_list_and_a_made_up_one_are_refused(many_to_read):
    many = many_to_read
    after = many.page(sort="label", limit=5).next
    for question in ({"sort": "row"}, {"sort": "label", "label": "positive"}, {"search": "dull"}):
        with pytest.raises(InputError, match="not one of this list"):
            many.page(limit=5, after=after, **question)
    for made in ("", "x", after[:-2], "A" * 40, after.swapcase(), "é" * 30, "A" * 9000):
        with pytest.raises(InputError, match="not one of this list"):
            many.page(sort="label", limit=5, after=made)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"text,label\na,b\nc,d,e\n", "line 3 of .* has 3 fields"),
        ("a.csv", b'text,label\na,b\n"c,d\n', "cannot read .* in the row that begins on line 3"),
        ("a.csv", b"text,label\na,b\n\xff\xfe,d\n", "line 3.* is not UTF-8"),
        (
            "a.jsonl",
            b'{"text": "a"}\n' * 150 + b'{"text": \n',
            "cannot read line 151 of .*: not JSON",
        ),
        ("a.jsonl", b'{"text": "a"}\n' * 150 + b"[1]\n", r"line 151 of .* is '\[1\]'"),
        ("a.jsonl", b'{"text": "a"}\n{"text": 7}\n', "row 2 .* holds the int '7'"),
        ("a.jsonl", b'{"text": "a"}\n{"text": "\\ud800"}\n', "row 2 .* half a character"),
        ("a.csv.gz", gzip.compress(as_csv(ROWS * 99))[:-30], "it is damaged"),
    ],
)
def test_a_row_that_cannot_be_read_ends_the_reading_and_keeps_what_is_before_it(
    tmp_path, name, content, said
):
    (tmp_path / name).write_bytes(content)
    dataset = Dataset(tmp_path / name, tmp_path / "kept")
    dataset.prepare()
    with pytest.raises(InputError, match=said):
        dataset.load(threading.Event())
    assert dataset.rows >= 1
    assert not dataset.imported
    assert dataset.message


def test_a_file_that_is_too_large_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "large.csv").write_bytes(as_csv(ROWS))
    with (tmp_path / "large.csv").open("r+b") as file:
        file.truncate(10 * 2**30)  # 10 GB, of which nothing is on the disk
    with pytest.raises(InputError, match=r"has 10\.7 GB, but a data set may have up to 5,000,000"):
        Dataset(tmp_path / "large.csv", tmp_path / "kept").prepare()
    (tmp_path / "rows.parquet").write_bytes(as_parquet(ROWS))
    few = Dataset(tmp_path / "rows.parquet", tmp_path / "kept", settings=DataSettings(rows=5))
    with pytest.raises(InputError, match="has 6 rows"):
        few.prepare()


def test_reading_goes_on_where_it_was_stopped_and_is_not_done_twice(tmp_path):
    rows = [(f"row {n}", None) for n in range(2000)]
    (tmp_path / "rows.jsonl").write_bytes(as_lines(rows))
    settings = DataSettings(batch=100)
    first = Dataset(tmp_path / "rows.jsonl", tmp_path / "kept", settings=settings)
    first.prepare()
    stop = threading.Event()
    reading = threading.Thread(target=first.load, args=(stop,))
    reading.start()
    while first.rows < 100:
        pass
    stop.set()
    reading.join()
    first.close()
    second = Dataset(tmp_path / "rows.jsonl", tmp_path / "kept", settings=settings)
    second.prepare()
    assert second.rows >= 100
    assert second.load(threading.Event())
    assert [row.text for row in everything(second, limit=200)] == [text for text, _ in rows]
    second.close()
    (tmp_path / "rows.jsonl").write_bytes(as_lines(rows[:5]))  # another file is read anew
    assert loaded(tmp_path / "rows.jsonl").rows == 5


@pytest.mark.parametrize(
    ("truth", "prediction", "names", "correct"),
    [
        ("Positive ", "positive", ["negative", "positive"], True),
        ("1", "positive", ["negative", "positive"], True),
        ("0", "positive", ["negative", "positive"], False),
        ("true", "positive", ["negative", "positive"], True),
        ("2", "2 stars", ["1 star", "2 stars"], True),
        ("1", "2 stars", ["1 star", "2 stars"], False),
        ("1.0", "LABEL_1", ["LABEL_0", "LABEL_1"], True),
        ("sports", "positive", ["negative", "positive"], None),
        (None, "positive", ["negative", "positive"], None),
        ("positive", None, ["negative", "positive"], None),
        ("7", "positive", ["negative", "positive"], None),
        ("1", "positive", [], None),
        ("negative", "positive", [], False),
    ],
)
def test_whether_a_prediction_is_wrong(truth, prediction, names, correct):
    assert is_correct(truth, prediction, names) is correct


def test_the_server_predicts_all_rows_and_shows_the_wrong_ones_first(server):
    server.ready()
    until(
        lambda: server.get("/api/data").json["predicted"].get("embedded") == 7,
        "all rows to be predicted",
        server,
    )
    about = server.get("/api/data").json
    assert about["name"] == "<b>reviews<b>.csv"
    assert about["imported"]
    assert about["labels"] == ["negative", "positive"]
    listed = server.get("/api/data/rows?model=embedded&sort=wrong").json
    assert listed["total"] == 7
    wrong = [row for row in listed["rows"] if row["wrong"]]
    assert "I loved every minute of it" in [row["text"] for row in wrong]
    assert listed["rows"][: len(wrong)] == wrong
    shares = [row["probability"] for row in wrong]
    assert shares == sorted(shares, reverse=True)
    first = server.get("/api/data/rows?model=embedded&sort=wrong&limit=2").json
    second = server.get(f"/api/data/rows?model=embedded&sort=wrong&after={first['next']}").json
    assert first["rows"] + second["rows"] == listed["rows"]
    empty = server.get("/api/data/rows?model=embedded").json["rows"][4]
    assert empty["empty"]
    assert empty["prediction"] is None
    assert empty["reason"]
    assert server.get("/api/data/rows/3").json["text"] == "I loved every minute of it"
    job = server.explained("A truly moving last act", budget=40)
    until(
        lambda: server.get("/api/data/rows?model=embedded").json["rows"][6]["key"] == job["key"],
        "the row to know its explanation",
        server,
    )
    found = server.get("/api/data/rows?model=embedded&sort=fidelity&limit=1").json["rows"][0]
    assert found["row"] == 7
