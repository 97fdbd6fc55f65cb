"""What clients did and what they were answered, and the laws that such a history must keep. Pure: no clock, no I/O."""

from semel.history.op import (
    Act,
    CommitOffset,
    EndTransaction,
    FetchOffset,
    Inject,
    Op,
    Outcome,
    Own,
    Place,
    Read,
    Replica,
    Send,
    Settle,
)
from semel.history.verdict import Breach, Inconsistency, Judgement, Verdict

__all__ = [
    "Act",
    "Breach",
    "CommitOffset",
    "EndTransaction",
    "FetchOffset",
    "Inconsistency",
    "Inject",
    "Judgement",
    "Op",
    "Outcome",
    "Own",
    "Place",
    "Read",
    "Replica",
    "Send",
    "Settle",
    "Verdict",
]
