"""What Spark says when an audit fails in the middle, as an error that says what to do.

A failed job tells a story of a hundred lines, most of them about itself. What matters is whether a side could not be
read, whether there was too little room, or whether the two sides cannot be compared as asked. Nothing was written in
any case: an audit only reads.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from semel.errors import ConfigError, EnvironmentFailure, SemelError

NO_POSITION = "semel audit: no position"
# Spark's reasons may contain whole plans.
_WORDS_MAX = 300


# As Java and the drivers of databases say it.
UNREACHABLE = (
    "Connection refused",
    "UnknownHostException",
    "NoRouteToHostException",
    "connection attempt failed",
    "SQLTransientConnection",
    "Communications link failure",
)


_CSV_FILE = re.compile(r"CSV header .*?^CSV file: ([^\n]+)", re.DOTALL | re.MULTILINE)


class _Known(NamedTuple):
    """A failure by the words that show it."""

    words: tuple[str, ...]
    error: type[SemelError]
    summary: str
    you_want: str = ""


# In the order in which they are looked for: too little room makes other things fail, too.
_FAILURES = (
    _Known(
        ("OutOfMemoryError", "GC overhead limit", "Cannot allocate memory", "UNABLE_TO_ACQUIRE_MEMORY"),
        EnvironmentFailure,
        "Spark ran out of memory",
        "--conf spark.driver.memory=4g, or --master with a cluster",
    ),
    _Known(
        ("No space left on device", "Disk quota exceeded"),
        EnvironmentFailure,
        "Spark ran out of disk",
        "--conf spark.local.dir=… with a folder that has room",
    ),
    _Known(
        (NO_POSITION,),
        ConfigError,
        "a record has no position, so its order cannot be judged",
        "a position that is a whole number in every record",
    ),
    _Known(
        ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "DIVIDE_BY_ZERO", "NUMERIC_VALUE_OUT_OF_RANGE"),
        ConfigError,
        "an expression has no result for some record",
        "one that gives null instead, such as try_cast(… AS …)",
    ),
    _Known(
        ("CSV header does not conform to the schema", "Number of column in CSV header is not equal"),
        ConfigError,
        "files of one CSV folder have different headers",
        "the same columns in the same order in every file, or a side for each kind of file",
    ),
    _Known(
        ("MALFORMED_RECORD_IN_PARSING", "FAILED_READ_FILE", "CANNOT_READ_FILE", "is not a Parquet file"),
        ConfigError,
        "a side has records that cannot be read",
    ),
    _Known(
        ("DataLossError",),
        SemelError,
        "records of a topic were removed while it was read",
        "the same again: an audit begins with what is there then",
    ),
    _Known(
        ("ConnectionFailure", *UNREACHABLE),
        EnvironmentFailure,
        "a side could not be reached while it was read",
    ),
)


def explain_failure(text: str) -> SemelError:
    """Choose the error for what Spark has said."""
    because = cause_of(text)
    csv_file = _CSV_FILE.search(text)
    if csv_file:
        because = f"{csv_file[1]} has another header than the first file"
    for known in _FAILURES:
        if any(one in text for one in known.words):
            return known.error(known.summary, because=because, you_want=known.you_want)
    return SemelError("Spark could not finish the audit", because=because, next_command="the same with --debug")


def cause_of(text: str) -> str:
    """The innermost reason, cut to a length that people read."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # What Java says comes behind a line about the call.
    lines = [line.removeprefix(": ") for line in lines if not line.startswith("An error occurred while calling")]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return (causes[-1] if causes else lines[0] if lines else "it did not say why")[:_WORDS_MAX]
