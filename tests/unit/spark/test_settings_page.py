"""The page with every setting, held against the code: nothing is accepted that is not on it, and the reverse."""

import re
from pathlib import Path

import pytest

from semel.errors import ConfigError
from semel.sinks.kafka.options import ALWAYS, INSTEAD, sink_connection
from semel.spark.options import HONOURED, WITHOUT_EFFECT, SourceOptions
from semel.wire.option_names import CONNECTION, READING, REFUSED, TUNING, WRITING

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "spark-settings.md"
ADDRESS = {"kafka.bootstrap.servers": "localhost:9092"}
NEVER = ("has no place", "not supported", "is unknown", "there is no option", "not for this source", "needs a prefix")
NAMES = sorted(
    {f"kafka.{name}" for name in CONNECTION | READING | WRITING | TUNING | REFUSED.keys()}
    | {name.lower() for name in (*HONOURED, *WITHOUT_EFFECT, *INSTEAD)}
)


def listed(heading: str, column: int = 0) -> set[str]:
    """The names in one column of the tables below a heading."""
    (section,) = re.findall(
        rf"^## {heading}$(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[column])}


def test_each_table_is_what_the_code_says() -> None:
    assert listed("Options of the source") == set(HONOURED)
    assert listed("Settings of the connection") == {f"kafka.{name}" for name in CONNECTION}
    assert listed("Options that a query may bring along") == set(WITHOUT_EFFECT)
    assert {name for name in listed("Settings of the sink") if name.startswith("kafka.")} == set(ALWAYS)
    assert {name for name in listed("Settings of the sink", 1) if name.startswith("kafka.")} <= set(INSTEAD)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_accepted_if_it_is_listed_and_only_then(name: str) -> None:
    """A listed one may still have a value that cannot be used; any other is refused for its name."""
    connection = listed("Settings of the connection")
    of_source = {
        one.lower()
        for one in listed("Options of the source") | listed("Options that a query may bring along") | connection
    }
    of_sink = connection | {one for one in listed("Settings of the sink") if one.startswith("kafka.")}
    assert _is_known(lambda: SourceOptions.parse({**ADDRESS, "subscribe": "t", name: "?"}, streaming=None)) == (
        name in of_source
    )
    assert _is_known(lambda: sink_connection({**ADDRESS, name: "?"})) == (name in of_sink)


def _is_known(read: object) -> bool:
    try:
        read()  # type: ignore[operator]
    except ConfigError as error:
        return not any(words in str(error) for words in NEVER)
    return True
