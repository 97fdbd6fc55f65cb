"""The three delivery guarantees, and the anomalies each one allows.

A guarantee is passed whole, as this enum, from the declaration down to the code that keeps it;
nothing in semel carries a flag such as `exactly_once: bool`.
"""

from enum import StrEnum
from types import MappingProxyType
from typing import Self

from semel.errors import ConfigError


class Anomaly(StrEnum):
    """One proven breach of what a reader or writer expects."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ABORTED_READ = "aborted_read"


class Guarantee(StrEnum):
    """How often the effect of one record may be seen."""

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    EXACTLY_ONCE = "exactly_once"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a guarantee as people write it: `exactly-once`, `EXACTLY_ONCE`, `exactly once`."""
        # However it is written in a file, an option or a form.
        name = "_".join(text.strip().lower().replace("-", " ").replace("_", " ").split())
        try:
            return cls(name)
        except ValueError:
            raise ConfigError(
                f"unknown guarantee {text!r}",
                you_want=" | ".join(cls),
                because="a guarantee is one of the three that Kafka can keep",
            ) from None

    def allows(self, anomaly: Anomaly) -> bool:
        """Tell whether a run may show this anomaly and still keep the guarantee."""
        return anomaly in ALLOWED_ANOMALIES[self]


ALLOWED_ANOMALIES = MappingProxyType(
    {
        Guarantee.AT_MOST_ONCE: frozenset({Anomaly.LOST}),
        # A retried record may arrive again behind a younger one, so a duplicate can also be out of order.
        Guarantee.AT_LEAST_ONCE: frozenset({Anomaly.DUPLICATED, Anomaly.REORDERED}),
        Guarantee.EXACTLY_ONCE: frozenset[Anomaly](),
    }
)
