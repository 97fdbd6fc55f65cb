"""The page: everything that was found is on it, and nothing that a record says is more than text."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from semel.audit.charts import Charts, Placed, Timeline
from semel.audit.drawing import bars, heat_map, line
from semel.audit.expectation import Expectation
from semel.audit.finding import MEANING, Example, Finding, Gap, Incomplete, Kind, Place
from semel.audit.report import Comparison, Report, Totals
from semel.audit.visible import visible

HOSTILE = "</td><script>alert(1)</script><img src=x onerror='alert(2)'>\" onload=\"x &lt; https://evil.example/a.js"
TIMELINE = Timeline(begin_s=1_700_000_000, step_s=60, left=(10, 5, 0), right=(0, 9, 7), untimed=3)
CHARTS = Charts(
    timeline=TIMELINE,
    placed=(
        Placed(lane="orders-0", kind=Kind.LOST, step=1, count=4),
        Placed(lane="payments-1", kind=Kind.DUPLICATED, step=2, count=2),
        Placed(lane="payments-1", kind=Kind.DUPLICATED, step=None, count=1),
    ),
    cells=((0, 4), (1023, 3)),
    commits_s=(1_700_000_030, 1_800_000_000),
)
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "span", "div", "b", "bdi", "pre"),
    *("table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "svg", "rect", "line", "polyline"),
}


class Reader:
    """A page as it is read: tags, names of attributes, and the text between; an error where one is not closed."""

    def __init__(self, page: str) -> None:
        elements = list(ElementTree.fromstring(page).iter())
        self.tags = {one.tag for one in elements}
        self.attributes = {name for one in elements for name in one.attrib}
        self.text = "".join((one.text or "") + (one.tail or "") for one in elements)


def report(text: str = "17", *, charts: Charts | None = CHARTS, count: int = 7) -> Report:
    findings = tuple(
        Finding(
            kind=kind,
            count=count,
            is_proven=kind is not Kind.LOST,
            examples=(Example(identity=f"{text}-{kind}", left=text, right=text),) if count else (),
        )
        for kind in Kind
    )
    one = Comparison(
        left=text,
        right=text,
        expectation=Expectation(where=text),
        identity=text,
        content=(text,),
        not_compared=(text,),
        totals=Totals(left=1234, right=16, buckets=64, buckets_opened=1),
        findings=findings,
        incomplete=(Incomplete(side=Place.RIGHT, gap=Gap.COMPACTION, text=text),),
        charts=charts,
    )
    return Report(comparisons=(one, one))


def test_every_finding_is_there_with_its_examples_and_what_limits_it() -> None:
    read = Reader(report().as_html(command="semel audit a b", made="now"))
    for kind in Kind:
        assert kind.name in read.text
        assert MEANING[kind] in read.text
        assert f"17-{kind}" in read.text
    for text in ("1,234", "not proven", "compaction", "BROKEN", "How to reproduce", "semel audit a b", "now"):
        assert text in read.text


def test_the_charts_say_what_they_draw_and_what_they_leave_out() -> None:
    text = Reader(report().as_html()).text
    for told in (
        "input, records",
        "output, records",
        "at most 10, at the end -1",
        "1 of 2 in this time",
        "3 records have no time",
        "2023-11-14 22:13:20 UTC",
        "orders-0, LOST",
        "payments-1, DUPLICATED",
        "21 more",  # of 28 that are placed, 7 are in lanes
        "7 REORDERED, 7 TORN, 7 LEDGER_GAP",
        "cell 1023: 3 anomalies",
    ):
        assert told in text, told


@pytest.mark.parametrize(
    "hostile", [HOSTILE, "\u202ekcab \x1b[2J\x00 \ud800", "' onmouseover='x", "]]><!--", "&amp;lt;"]
)
def test_what_records_say_is_text_and_nothing_else(hostile: str) -> None:
    charts = Charts(timeline=TIMELINE, placed=(Placed(lane=hostile, kind=Kind.LOST, step=0, count=1),))
    page = report(hostile, charts=charts).as_html(command=hostile, made=hostile)
    page.encode()  # can be written
    read = Reader(page)
    assert read.tags <= TAGS
    assert read.attributes.isdisjoint({"src", "href", "style", "xlink:href"})
    assert not [name for name in read.attributes if name.startswith("on")]
    assert read.text.count(visible(hostile)) >= 10, "it is shown as it is, wherever it belongs"


def test_nothing_is_loaded_and_no_script_may_run() -> None:
    page = report(charts=CHARTS).as_html()
    assert not re.search(r"https?:|//[a-z]|url\(|@import|<script|<link|<iframe", page)
    assert "default-src 'none'" in page
    for needed in ("prefers-color-scheme: dark", "@media print", 'name="viewport"'):
        assert needed in page
    assert len(page) < 40_000


def test_a_report_without_charts_or_anomalies_is_a_page_too() -> None:
    clean = report(charts=Charts(), count=0).as_html()
    assert "Neither side says a time" in clean
    assert "Anomalies by" not in clean
    assert "Time" not in Reader(report(charts=None).as_html()).text


def test_charts_keep_their_measure() -> None:
    assert 'y="0" width="0.9" height="100"' in bars((4, 2), ("a", "b"), "in")
    assert 'points="0.5,50 1.5,100 2.5,0"' in line((0, -5, 5), "lag"), "zero is in the middle"
    assert "<rect" not in bars((0, 0), ("a", "b"), "in")
    assert 'x="31.04" y="31.04"' in heat_map({1023: 1}, 32, 32, {1023: "t"})


def test_the_lag_counts_what_is_in_and_not_yet_out() -> None:
    assert TIMELINE.lag(1) == (10, 6, -1)
    assert TIMELINE.lag(2) == (20, 21, 14)
    assert Timeline(begin_s=0, step_s=1, left=(1,)).lag(1) == ()


def test_what_would_be_obeyed_is_written_out() -> None:
    assert visible("grüße 注文 plain") == "grüße 注文 plain"
    assert visible("a\x1b[2J\u202e\n\ud800") == r"a\x1b[2J\u202e\n\ud800"
    assert r"\x1b[31m" in str(report("\x1b[31m"))
