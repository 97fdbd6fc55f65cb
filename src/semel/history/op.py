"""Ops: what one client did, what it was answered, and when. A history is the list of them in the order they ended.

Why: `invoked` and `returned` number the beginnings and ends of all ops of a run in one sequence, so "this was over
     before that began" is a comparison of two integers, and no clock is needed to judge.
"""

from dataclasses import dataclass
from enum import StrEnum

Place = tuple[str, int]  # topic and partition
ACKS_ALL = -1


# Not the `Outcome` of semel.errors, which is only asked of what went wrong, and may be "happened" all the same. Here
# OK is an op that was answered as it should be. The values are part of every history's digest.
class Outcome(StrEnum):
    """What the client that did an op knows about its effect.

    OK: it happened. FAILED: it did not, and never will. UNKNOWN: it may have happened, or may still happen.
    """

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One record sent until it was acknowledged or given up. Values are unique in a run.

    `producer` names the producer id and epoch of an idempotent producer; plain ones have none. `gap` says that it was
    refused for a gap in the sequence although everything before it had been acknowledged.
    """

    value: str
    place: Place
    acks: int = ACKS_ALL
    producer: str = ""
    transaction: str = ""
    offset: int = -1
    gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """A commit or an abort, asked for until it was answered or given up."""

    transaction: str
    commit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """InitProducerId: the caller becomes the owner of a transactional id."""

    transactional_id: str
    producer_id: int = -1
    producer_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One fetch: the records a client of this isolation sees from `offset_start` on, before `offset_next`.

    `final` marks the reads after everything was healed, which together cover the whole partition.
    """

    place: Place
    committed: bool
    leader_epoch: int = -1
    offset_start: int = 0
    offset_next: int = 0
    high_watermark: int = 0
    last_stable_offset: int = 0
    records: tuple[tuple[int, str], ...] = ()
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffset:
    """One attempt to commit a group's offset, alone or as part of a transaction; `coordinator` is who answered."""

    group: str
    place: Place
    offset_next: int
    transaction: str = ""
    coordinator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchOffset:
    """What the group's coordinator says is committed; -1 is nothing yet. `final` is after everything was healed."""

    group: str
    place: Place
    offset_next: int = -1
    coordinator: str = ""
    final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A look into one replica's log: its batches as (base offset, leader epoch, checksum), oldest first."""

    place: Place
    broker: int
    high_watermark: int
    batches: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """A fault of this kind struck; without a kind, one ended."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Something that must succeed once everything is healed."""

    what: str


Act = Send | EndTransaction | Own | Read | CommitOffset | FetchOffset | Replica | Inject | Settle


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One act of one client, from its beginning to its end; `error` is the last one that it was answered."""

    client: str
    act: Act
    outcome: Outcome = Outcome.OK
    invoked: int
    returned: int
    at_ms: int = 0
    error: str = ""

    def is_before(self, other: "Op") -> bool:
        """Whether this was over when the other began."""
        # Two ops that overlap have no order, and no law may assume one.
        return self.returned < other.invoked
