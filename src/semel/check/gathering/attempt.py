"""Ask for a fact, and take a refusal or a lost connection for an answer: the fact is unknown, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from semel.check.facts import FactMissing, Unknown
from semel.errors import SemelError

T = TypeVar("T")


def attempt(question: Callable[[], T]) -> T | Unknown:
    """Give the fact, or why it is not known."""
    try:
        return question()
    except SemelError as error:
        return Unknown(error.summary)
    except FactMissing as missing:
        return Unknown(str(missing))
