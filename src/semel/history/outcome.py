"""What the client that did an op knows about its effect."""

from enum import StrEnum


class Outcome(StrEnum):
    """OK: it happened. FAILED: it did not, and never will. UNKNOWN: it may have happened, or may still happen."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"
