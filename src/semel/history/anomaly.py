"""One proven breach of a law: what kind, and what shows it.

The four anomalies of `guarantee.py` are what users of a pipeline may see. The cluster's own promises can break in more
ways; those are inconsistencies, which no guarantee ever allows.
"""

from dataclasses import dataclass
from enum import StrEnum

from semel.guarantee import Anomaly


class Inconsistency(StrEnum):
    """A breach inside the cluster, or between it and one client."""

    WENT_BACK = "went_back"
    DIVERGED = "diverged"
    TORN = "torn"
    TWO_OWNERS = "two_owners"
    UNEXPECTED = "unexpected"
    STALLED = "stalled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """What was broken and the facts that prove it, in one line for people."""

    kind: Anomaly | Inconsistency
    text: str

    def __str__(self) -> str:
        """As reports print it."""
        return f"{self.kind.value}: {self.text}"
