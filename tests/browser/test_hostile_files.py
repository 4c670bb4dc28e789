"""Result files written to attack whoever opens their report.

Nothing runs, nothing leaves the page, and nothing new is in it.

Every field of a file, and every list and text in it, takes each hostile string in turn. A file is
refused when it is loaded, or its page, with scripts and without, consists of the elements that any
page has.
"""

import json
import random
from collections import Counter

import pytest
from made import made, shaped

from slalom_xai.errors import SlalomError
from slalom_xai.explanation import Explanation
from slalom_xai.reports.html import page as page_of
from slalom_xai.reports.html import write_report

MARK = "https://attack.example/"
HOSTILE = (
    f'<meta http-equiv="refresh" content="0;url={MARK}">',
    "<script>window.ran = 1</script>",
    "</script><script>window.ran = 1</script>",
    "</title></style></head><body onload='window.ran = 1'>",
    "<img src=x onerror='window.ran = 1'>",
    f"<iframe src='{MARK}'></iframe><object data='{MARK}'></object><embed src='{MARK}'>",
    f"<link rel=stylesheet href='{MARK}'><style>@import '{MARK}';</style>",
    (
        "\" onmouseover='window.ran = 1' onfocus=window.ran=1 autofocus "
        f'style="background:url({MARK})" x="'
    ),
    f"<base href='{MARK}'><form action='{MARK}'><input autofocus onfocus='window.ran = 1'></form>",
    "<svg onload='window.ran = 1'><animate onbegin='window.ran = 1' attributeName=x dur=1s></svg>",
    f"javascript:window.ran=1//--><a href='javascript:window.ran=1' ping='{MARK}'>x</a>",
    "__proto__",
    "constructor",
    "\u2028\u2029\x00\x1b]0;x\x07\u202e<!--<script>",
)


def texts_of(data, way=()):
    """Every place of a file that holds a text, or could: names of fields left out."""
    if isinstance(data, dict):
        for key, entry in data.items():
            yield from texts_of(entry, (*way, key))
    elif isinstance(data, list) and not all(isinstance(entry, float) for entry in data):
        for place, entry in enumerate(data[:2]):
            yield from texts_of(entry, (*way, place))
    if way and not isinstance(data, dict):
        yield way


def attacked(data, way, value):
    data = json.loads(json.dumps(data))
    *steps, last = way
    holder = data
    for step in steps:
        holder = holder[step]
    holder[last] = value
    if way == ("text",) and isinstance(value, str):
        data["text"] = value + made().text  # so long that the units are within it
    return data


def loaded(data):
    try:
        return Explanation.from_dict(data)
    except SlalomError:
        return None


def everything_hostile(value):
    """What a file may say freely, all of it hostile at once."""
    text = f"{value} and {value}"
    return made(
        text,
        text_pair=text,
        labels=(value, value + "2"),
        model=value,
        method=value,
        notes=(value, value),
        left_out=value[-3:],
    )


def sources():
    made_up = made(notes=("A note.",), measured=True)
    return [made_up, shaped("an additive method"), shaped("four classes")]


@pytest.mark.long
def test_every_field_of_a_file_is_refused_or_harmless(show, tmp_path):
    rng = random.Random(0)
    survived, refused = [], Counter()
    for source in sources():
        data = source.to_dict()
        data["notes"] = data["notes"] or ["A note."]
        for way in texts_of(data):
            for value in rng.sample(HOSTILE, 4):
                for given in (value, [value], {value: value}):
                    explanation = loaded(attacked(data, way, given))
                    if explanation is None:
                        refused[way[0]] += 1
                    else:
                        survived.append(explanation)
    assert {
        "granularity",
        "removal",
        "outputs",
        "units",
        "function",
        "measured",
        "standard_errors",
        "fidelity",
        "target",
        "full",
    } <= refused.keys()
    assert len(survived) > 50
    safe(show, write_report(rng.sample(survived, 50), tmp_path / "fields.html"), tmp_path)


@pytest.mark.parametrize("place", range(len(HOSTILE)))
def test_what_a_file_may_say_freely_stays_text(show, tmp_path, place):
    hostile = everything_hostile(HOSTILE[place])
    again = Explanation.from_dict(json.loads(json.dumps(hostile.to_dict())))
    assert again == hostile
    safe(
        show, write_report([again, made()], tmp_path / "free.html", title=HOSTILE[place]), tmp_path
    )


@pytest.mark.parametrize("value", HOSTILE[:3])
@pytest.mark.parametrize("field", ["granularity", "removal"])
def test_a_granularity_that_got_past_the_check_is_escaped(show, tmp_path, field, value):
    """Explanations can be made in Python, too."""
    fields = vars(made()) | {field: value}
    path = write_report(Explanation(**fields), tmp_path / "made.html")
    assert value not in path.read_text(encoding="utf-8")
    safe(show, path, tmp_path)


def test_a_notebook_frame_is_harmless(show, tmp_path):
    path = tmp_path / "notebook.html"
    frames = "".join(everything_hostile(value)._repr_html_() for value in HOSTILE[:8])
    path.write_text(f"<!doctype html><meta charset=utf-8>{frames}", encoding="utf-8")
    page = opened(show, path)
    assert page.locator("iframe").count() == 8
    assert Counter(page.evaluate(ELEMENTS)) == Counter(
        ["html", "head", "meta", "body", *["iframe"] * 8]
    )


ELEMENTS = "[...document.querySelectorAll('*')].map(element => element.localName)"
ATTRIBUTES = "[...document.querySelectorAll('*')].flatMap(element => element.getAttributeNames())"


def kinds(page):
    """What elements and attributes a page has."""
    return set(page.evaluate(ELEMENTS)), set(page.evaluate(ATTRIBUTES))


def opened(show, path, **options):
    """Opens a page, and sees that it stays there, asks for nothing and has run nothing."""
    page = show(path, **options)
    moves, requests = [], []
    page.on("framenavigated", lambda frame: moves.append(frame.url))
    page.on("request", lambda request: requests.append(request.url))
    page.wait_for_load_state("load")
    assert page.url == path.as_uri()
    assert not [url for url in [*moves, *requests] if not url.startswith("about:")]
    return page


def safe(show, path, tmp_path):
    """Compares a page with one whose texts are harmless.

    It has the same kinds of elements and attributes, and nothing else.
    """
    for scripts in (False, True):
        if scripts not in KNOWN:
            harmless = tmp_path / "harmless.html"
            pair = made("one two", text_pair="three", left_out="e", notes=("A note.",))
            harmless.write_text(page_of([*sources(), pair, made("two words")]), encoding="utf-8")
            KNOWN[scripts] = kinds(
                visited(opened(show, harmless, java_script_enabled=scripts), scripts)
            )
        page = visited(opened(show, path, java_script_enabled=scripts), scripts)
        if scripts:
            assert page.evaluate("window.ran") is None
        for before, after in zip(KNOWN[scripts], kinds(page), strict=True):
            assert after <= before
        assert page.locator("meta").count() == 4
        assert page.locator("script:not([type])").count() == 1


def visited(page, scripts):
    """The page after its first texts were opened and their first words were clicked."""
    entries = page.locator("nav li button").all()[:4] if scripts else []
    for entry in entries:
        entry.click()
        for word in page.locator(".word").all()[:2]:
            word.dispatch_event("click")  # a word that is only a space cannot be clicked on
    return page


KNOWN = {}  # with scripts and without: what elements and attributes any page has
