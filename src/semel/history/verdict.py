"""Verdicts: HELD, BROKEN, and UNKNOWN for a history that cannot tell. The worst one counts."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from semel.history.anomaly import Breach


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One law's word on one history; `weighed` counts the facts it could have been broken by."""

    law: str
    weighed: int
    breaches: tuple[Breach, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """A law that found nothing to weigh has shown nothing."""
        if self.breaches:
            return Verdict.BROKEN
        return Verdict.HELD if self.weighed else Verdict.UNKNOWN
