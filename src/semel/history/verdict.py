"""What a law says of a history: the breaches it proved, and the verdict HELD, BROKEN or UNKNOWN. The worst one counts.

The four anomalies of `guarantee.py` are what users of a pipeline may see. The cluster's own promises can break in more
ways; those are inconsistencies, which no guarantee ever allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from semel.guarantee import Anomaly


class Verdict(StrEnum):
    """What is proven."""

    HELD = "HELD"
    BROKEN = "BROKEN"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def worst(cls, verdicts: Iterable["Verdict"]) -> "Verdict":
        """One breach breaks the whole; no verdicts at all prove nothing."""
        found = set(verdicts)
        if cls.BROKEN in found:
            return cls.BROKEN
        return cls.HELD if found == {cls.HELD} else cls.UNKNOWN


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What one law says of one history; `weighed` counts the facts that could have broken it."""

    law: str
    weighed: int
    breaches: tuple[Breach, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """A law that found nothing to weigh has shown nothing."""
        if self.breaches:
            return Verdict.BROKEN
        # A law that has weighed nothing would hold in any cluster, also in one that loses everything.
        return Verdict.HELD if self.weighed else Verdict.UNKNOWN
