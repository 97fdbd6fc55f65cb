"""What the leader of one partition knows of its followers, and what follows from it. No clock, no tasks, no log.

The leader learns a follower's log end offset from the offset it fetches from. The high watermark is the smallest log
end offset of those that count; a record below it is on every in-sync replica and is never lost by a clean election.

Keeps: R1 the high watermark never exceeds the log end offset of a replica that is, or is about to be, in sync;
       R2 only the controller decides who is in sync: the leader proposes, one change at a time, and until it knows the
       outcome counts both the old and the proposed set;
       R3 a follower is proposed only when it has everything below the high watermark and what this leader began with.
Why:   as in Apache Kafka 4, nothing becomes readable while fewer than `min.insync.replicas` are in sync, and a follower
       that has just caught up holds the high watermark until it is in sync: under a steady load it would never join.
Sources: KIP-101, KIP-497, KIP-903, KIP-966 (the high watermark and min.insync.replicas).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from semel.broker.metadata.cluster_state import PartitionState

UNKNOWN_OFFSET = -1
NO_BROKER_EPOCH = -1
NEVER_MS = float("-inf")

Eligible = Callable[[int, int], bool]


@dataclass(slots=True)
class Follower:
    """One follower as its leader sees it."""

    broker_epoch: int = NO_BROKER_EPOCH
    log_end_offset: int = UNKNOWN_OFFSET
    caught_up_ms: float = NEVER_MS
    fetched_ms: float = NEVER_MS
    leader_end_offset: int = 0  # the leader's at the last fetch

    def note_fetch(self, offset: int, leader_end_offset: int, now_ms: float) -> None:
        """It has everything below `offset`; it was caught up whenever it reached what the leader then had."""
        if offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        # It has now what the leader had at its last fetch, so it was caught up
        # then. Under a steady load no fetch ever reaches the log end itself.
        elif offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.log_end_offset = offset
        self.leader_end_offset = leader_end_offset
        self.fetched_ms = now_ms

    def is_caught_up(self, leader_end_offset: int, now_ms: float, lag_ms_max: float) -> bool:
        """Whether it has everything, or had it not long ago."""
        return self.log_end_offset == leader_end_offset or now_ms - self.caught_up_ms <= lag_ms_max


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A change of the in-sync replicas that the controller is asked for; each replica with its broker epoch."""

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]

    @property
    def replicas(self) -> tuple[int, ...]:
        """The broker ids."""
        return tuple(broker_id for broker_id, _ in self.isr)


class Leadership:
    """One leader epoch of one partition on the broker that leads it."""

    def __init__(
        self,
        broker_id: int,
        state: PartitionState,
        *,
        log_end_offset: int,
        lag_ms_max: float,
        now_ms: float,
        eligible: Eligible,
    ) -> None:
        """`eligible(broker, broker epoch)` says whether that broker is alive and may be in sync."""
        self._broker_id = broker_id
        self._lag_ms_max = lag_ms_max
        self._eligible = eligible
        self.state = state
        self.start_offset = log_end_offset
        self.proposal: IsrProposal | None = None
        self.followers: dict[int, Follower] = {}
        self._update_followers(now_ms)

    @property
    def is_alone(self) -> bool:
        """Whether nobody copies this partition."""
        return not self.followers

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The replicas in sync, and those that will be when the proposal under way is accepted."""
        proposed = self.proposal.replicas if self.proposal else ()
        return self.state.isr + tuple(replica for replica in proposed if replica not in self.state.isr)

    def insync_min(self, configured: int) -> int:
        """`min.insync.replicas`, which cannot ask for more replicas than there are."""
        return min(configured, len(self.state.replicas))

    def is_under_min(self, configured: int) -> bool:
        """Whether too few replicas are in sync."""
        return len(self.state.isr) < self.insync_min(configured)

    def change_state(self, state: PartitionState, now_ms: float) -> None:
        """The controller has decided; what was proposed before is settled by it."""
        # The same partition epoch means that only something else
        # of the cluster has changed: the proposal is still open.
        if state.partition_epoch > self.state.partition_epoch:
            self.proposal = None
        self.state = state
        self._update_followers(now_ms)

    def _update_followers(self, now_ms: float) -> None:
        # A member of the set gets the whole lag time for its first fetch under this leader.
        known = self.followers
        self.followers = {
            replica: known.get(replica) or Follower(caught_up_ms=now_ms if replica in self.state.isr else NEVER_MS)
            for replica in self.state.replicas
            if replica != self._broker_id
        }

    def note_fetch(self, replica: int, broker_epoch: int, offset: int, leader_end_offset: int, now_ms: float) -> bool:
        """A follower asks for what comes at `offset`; false when it is none, or an older life of one."""
        follower = self.followers.get(replica)
        # An older broker epoch: a fetch of a life that has ended, which must not vouch for the new one (KIP-903).
        if follower is None or broker_epoch < follower.broker_epoch:
            return False
        follower.broker_epoch = broker_epoch
        follower.note_fetch(offset, leader_end_offset, now_ms)
        return True

    def high_watermark(self, log_end_offset: int, insync_min: int, now_ms: float) -> int:
        """The offset below which all replicas that count have everything; -1 while too few of them are in sync."""
        # KIP-966: a record that one replica alone has could be read and then lost with that replica.
        if self.is_under_min(insync_min):
            return UNKNOWN_OFFSET
        offset = log_end_offset
        counted = self.maximal_isr
        for replica, follower in self.followers.items():
            if follower.log_end_offset < offset and (
                replica in counted or self._is_joining(replica, follower, log_end_offset, now_ms)
            ):
                offset = follower.log_end_offset
        return offset

    def _is_joining(self, replica: int, follower: Follower, log_end_offset: int, now_ms: float) -> bool:
        is_caught_up = follower.is_caught_up(log_end_offset, now_ms, self._lag_ms_max)
        return is_caught_up and self._eligible(replica, follower.broker_epoch)

    def plan_expand(self, replica: int, high_watermark: int) -> IsrProposal | None:
        """Propose a follower that has caught up."""
        if self.proposal is not None or replica in self.state.isr:
            return None
        follower = self.followers[replica]
        # A new leader's high watermark may still be too low. Whatever was there before its epoch may have been
        # acknowledged, so a follower needs that too before it may lead (KAFKA-7128).
        if follower.log_end_offset < max(high_watermark, self.start_offset):
            return None
        if not self._eligible(replica, follower.broker_epoch):
            return None
        return self._propose((*self.state.isr, replica))

    def plan_shrink(self, log_end_offset: int, now_ms: float) -> IsrProposal | None:
        """Propose to go on without followers that have lagged for too long."""
        # One change at a time (R2): what the controller does with the first may make the second wrong.
        if self.proposal is not None:
            return None
        lagging = [
            replica
            for replica, follower in self.followers.items()
            if replica in self.state.isr and not follower.is_caught_up(log_end_offset, now_ms, self._lag_ms_max)
        ]
        if not lagging:
            return None
        return self._propose(tuple(replica for replica in self.state.isr if replica not in lagging))

    def _propose(self, isr: tuple[int, ...]) -> IsrProposal:
        ordered = [replica for replica in self.state.replicas if replica in isr]
        self.proposal = IsrProposal(
            leader_epoch=self.state.leader_epoch,
            partition_epoch=self.state.partition_epoch,
            isr=tuple((replica, self._broker_epoch_of(replica)) for replica in ordered),
        )
        return self.proposal

    def _broker_epoch_of(self, replica: int) -> int:
        return self.followers[replica].broker_epoch if replica in self.followers else NO_BROKER_EPOCH

    def withdraw(self, proposal: IsrProposal) -> None:
        """The controller has said that this proposal is refused and nothing of it happened."""
        if self.proposal is proposal:
            self.proposal = None
