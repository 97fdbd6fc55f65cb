"""The error classes that people meet, and what a Kafka error code becomes.

Why not all: those of the embedded broker's inside never leave it.
"""

from __future__ import annotations

import re
from importlib import import_module

from semel import errors
from semel.clients.failures import FENCED_MEMBER, FENCED_PRODUCER
from semel.errors import BrokerError, MissingExtraError, SemelError
from semel.protocol.error_codes import ErrorCode
from semel.wire.answers import error_of

ELSEWHERE = {
    "DataLossError": "semel.spark.data_loss",
    "OffsetOutOfRangeError": "semel.wire.fetch",
    "QueryStoppedError": "semel.spark.stopping",
    "RowsRefusedError": "semel.sinks.postgres.connection",
    "SecondAttemptError": "semel.spark.attempts",
    "TopicRecreatedError": "semel.wire.fetch",
}
_NUMBER = re.compile(r"code ?= ?(-?\d+)")


def error_classes() -> list[type[SemelError]]:
    """The tree, each class behind its parent; without those of Spark where PySpark is not installed."""
    found = _tree(SemelError)
    for name in ELSEWHERE:
        try:
            found.append(error_class(name))
        except MissingExtraError:
            continue  # nobody meets it here
    return found


def error_class(name: str) -> type[SemelError]:
    """The class of this name; KeyError when there is none, MissingExtraError when its part is not installed."""
    if name in ELSEWHERE:
        try:
            found: type[SemelError] = getattr(import_module(ELSEWHERE[name]), name)
        except ModuleNotFoundError as missing:
            raise MissingExtraError.of("spark", name) from missing
        return found
    return {cls.__name__: cls for cls in _tree(SemelError)}[name]


def error_names() -> list[str]:
    """Every name that `error_class` knows."""
    return [cls.__name__ for cls in _tree(SemelError)] + list(ELSEWHERE)


def import_line(cls: type[SemelError]) -> str:
    """How a program gets at it."""
    return f"from {cls.__module__} import {cls.__name__}"


def kafka_code(text: str) -> ErrorCode | None:
    """The code that a name (PRODUCER_FENCED) or a number (code=90) stands for."""
    number = _NUMBER.fullmatch(text.lower())
    if number is not None:
        return next((code for code in ErrorCode if code == int(number[1])), None)
    return ErrorCode.__members__.get(text.upper())


def raised_for(code: ErrorCode) -> BrokerError:
    """What the Spark source and sink raise for it."""
    return error_of(code, "an answer")


def is_fenced_for_clients(code: ErrorCode) -> bool:
    """Whether `semel.Producer` and `semel.Consumer` raise FencedError for it."""
    return code in FENCED_PRODUCER | FENCED_MEMBER


def _tree(cls: type[SemelError]) -> list[type[SemelError]]:
    below = [sub for sub in cls.__subclasses__() if sub.__module__ == errors.__name__]
    return [cls, *(found for sub in below for found in _tree(sub))]
