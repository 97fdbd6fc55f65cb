"""Verdicts and reports: what is proven, what an incomplete side takes away, and the document that programs read."""

import json
from collections.abc import Mapping
from typing import cast

import pytest

from semel.audit.expectation import Expectation
from semel.audit.finding import MEANING, Example, Finding, Gap, Incomplete, Kind, Place, is_proven
from semel.audit.report import Comparison, Report, Totals, json_schema
from semel.history.verdict import Verdict

LEFT_CUT = Incomplete(side=Place.LEFT, gap=Gap.RETENTION, text="orders-0 begins at 40")
RIGHT_CUT = Incomplete(side=Place.RIGHT, gap=Gap.COMPACTION, text="payments is compacted")


def compared(counts: Mapping[Kind, int], *incomplete: Incomplete, records: int = 10) -> Comparison:
    findings = tuple(
        Finding(
            kind=kind,
            count=count,
            is_proven=is_proven(kind, incomplete),
            examples=(Example(identity="17", left="orders-0@17"),) if count else (),
        )
        for kind, count in counts.items()
    )
    return Comparison(
        left="orders",
        right="payments",
        expectation=Expectation(),
        identity="id",
        content=("amount",),
        not_compared=("note",),
        totals=Totals(left=records, right=records, buckets=64, buckets_opened=1),
        findings=findings,
        incomplete=incomplete,
    )


CLEAN = dict.fromkeys(Kind, 0)


@pytest.mark.parametrize("kind", Kind)
def test_one_proven_anomaly_breaks(kind: Kind) -> None:
    assert compared({**CLEAN, kind: 1}).verdict is Verdict.BROKEN


@pytest.mark.parametrize(
    ("cut", "unproven"),
    [
        (LEFT_CUT, {Kind.DUPLICATED, Kind.ALTERED, Kind.UNEXPECTED, Kind.REORDERED}),
        (RIGHT_CUT, {Kind.LOST, Kind.TORN, Kind.REORDERED}),
    ],
)
def test_an_incomplete_side_takes_away_what_it_may_have_caused(cut: Incomplete, unproven: set[Kind]) -> None:
    verdicts = {kind: compared({**CLEAN, kind: 1}, cut).verdict for kind in Kind}
    assert verdicts == {kind: Verdict.UNKNOWN if kind in unproven else Verdict.BROKEN for kind in Kind}


def test_nothing_found_is_held_only_where_both_sides_are_whole_and_not_empty() -> None:
    assert compared(CLEAN).verdict is Verdict.HELD
    assert compared(CLEAN, LEFT_CUT).verdict is Verdict.UNKNOWN
    assert compared(CLEAN, records=0).verdict is Verdict.UNKNOWN


def test_the_worst_comparison_counts() -> None:
    clean, unknown, broken = compared(CLEAN), compared(CLEAN, LEFT_CUT), compared({Kind.LOST: 2})
    assert Report(comparisons=(clean, unknown)).verdict is Verdict.UNKNOWN
    assert Report(comparisons=(clean, unknown, broken)).verdict is Verdict.BROKEN
    assert Report(comparisons=(broken, broken)).count(Kind.LOST) == 4
    assert Report(comparisons=()).verdict is Verdict.UNKNOWN


def test_the_text_shows_counts_examples_and_what_limits_the_verdict() -> None:
    text = str(Report(comparisons=(compared({Kind.LOST: 1200, Kind.TORN: 0}, RIGHT_CUT),)))
    assert text.splitlines() == [
        "UNKNOWN  orders -> payments",
        "  10 records left, 10 right; expected: exactly-one",
        "  identity: id; content: amount",
        "  not compared: note",
        "  LOST         1,200  records of the left side that did not arrive; not proven: a side is incomplete",
        "      17  left orders-0@17  right -",
        "  TORN             0",
        "  right side incomplete (compaction): payments is compacted",
    ]
    assert "nothing was compared" in str(Report(comparisons=(compared(CLEAN, records=0),)))


def test_every_kind_is_explained() -> None:
    assert set(MEANING) == set(Kind)


def test_the_published_schema_describes_the_document() -> None:
    schema = json_schema()
    report = Report(comparisons=(compared({**CLEAN, Kind.LOST: 1}, LEFT_CUT, RIGHT_CUT), compared(CLEAN)))
    check(json.loads(json.dumps(report.as_json())), schema, schema)
    definitions = cast(dict[str, dict[str, dict[str, dict[str, object]]]], schema["$defs"])
    assert definitions["finding"]["properties"]["kind"]["enum"] == [kind.value for kind in Kind]
    assert definitions["incomplete"]["properties"]["gap"]["enum"] == [gap.value for gap in Gap]
    assert cast(dict[str, object], definitions["verdict"])["enum"] == [verdict.value for verdict in Verdict]


def check(value: object, schema: Mapping[str, object], root: Mapping[str, object]) -> None:
    """The part of JSON Schema that the published one uses."""
    if "$ref" in schema:
        name = cast(str, schema["$ref"]).rpartition("/")[2]
        check(value, cast(Mapping[str, Mapping[str, object]], root["$defs"])[name], root)
    elif "enum" in schema:
        assert value in cast(list[object], schema["enum"])
    elif "const" in schema:
        assert value == schema["const"]
    elif schema["type"] == "object":
        properties = cast(Mapping[str, Mapping[str, object]], schema["properties"])
        assert isinstance(value, dict)
        assert set(value) == set(cast(list[str], schema["required"])) == set(properties)
        for name, item in value.items():
            check(item, properties[name], root)
    elif schema["type"] == "array":
        assert isinstance(value, list)
        for item in value:
            check(item, cast(Mapping[str, object], schema["items"]), root)
    else:
        assert isinstance(value, {"string": str, "integer": int, "boolean": bool}[cast(str, schema["type"])])
