"""Sides whose records are known by a stamp: the source offset that a sink of semel has written with each of them.

A record of the source is called by its place (`orders-0@17`), a record that came out by its stamp, which is the same
text. So records of equal content are told apart, and what a pipeline made of a record does not matter: content is
compared only if it is asked for. A record without a stamp is nobody's: it is UNEXPECTED.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from semel.audit.sides import Side, with_columns
from semel.errors import ConfigError
from semel.sinks.stamps import STAMP, STAMP_OF_HEADERS

if TYPE_CHECKING:
    from collections.abc import Sequence


def has_stamps(sides: Sequence[Side]) -> bool:
    """Whether every right side keeps stamps in a column, so that nobody has to say who a record is."""
    return all(STAMP in side.frame.columns for side in sides)


def known_by_place(source: Side, content: Sequence[str] | None = None) -> Side:
    """The side of a source topic, its records known by where they stand; without `content` nothing else is compared."""
    return replace(with_columns(source, {STAMP: source.coordinate}), key=STAMP, content=content or ())


def known_by_stamp(output: Side, content: Sequence[str] | None = None) -> Side:
    """A side that came out of a pipeline, read likewise; ConfigError where nothing was stamped."""
    # Kafka has no columns of its own, so a sink into a topic writes the stamp as a header.
    if "headers" in output.frame.columns:
        output = with_columns(output, {STAMP: STAMP_OF_HEADERS})
    if STAMP not in output.frame.columns:
        raise ConfigError(
            f"{output.name} has no column {STAMP!r}",
            you_want=f"--key SQL for who a record is; or a sink with stamp=True and rows with {STAMP}",
        )
    return replace(output, key=STAMP, content=content or ())
