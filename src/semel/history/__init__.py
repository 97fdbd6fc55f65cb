"""What clients did and what they were told, and the laws that such a history must keep. Pure: no clock, no I/O."""

from semel.history.anomaly import Breach, Inconsistency
from semel.history.op import (
    Act,
    CommitOffset,
    EndTransaction,
    FetchOffset,
    Inject,
    Op,
    Own,
    Place,
    Read,
    Replica,
    Send,
    Settle,
)
from semel.history.outcome import Outcome
from semel.history.verdict import Judgement, Verdict

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
