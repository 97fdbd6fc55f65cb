"""A broker's proposals to the controller: one request at a time, with everything that has been proposed since.

Keeps: R2 of `followers`: a proposal stays under way until its outcome is known, however often it has to be sent.
Sources: KIP-497.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.broker.replication.controller_messages import AlterPartitionRequest, AlterPartitionResponse, PartitionId
from semel.broker.replication.followers import IsrProposal
from semel.broker.replication.partition import Partition
from semel.broker.runtime.tasks import Tasks
from semel.errors import ConnectionFailure
from semel.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from semel.broker.broker import Broker

RETRY_MS = 50
# The controller says that the proposal was not carried out and that the partition epoch was right: propose it again.
NOT_DONE = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
# Done, or overtaken by what the next state of the cluster will say.
SETTLED = frozenset(
    {
        ErrorCode.NONE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)


class IsrChanges:
    """The proposals of one broker that the controller has not answered yet."""

    def __init__(self, broker: Broker) -> None:
        """Start with none."""
        self._broker = broker
        self._waiting: dict[PartitionId, tuple[Partition, IsrProposal]] = {}
        self._sending = False
        self._tasks = Tasks()

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send it, together with others that are waiting."""
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        if not self._sending:
            self._sending = True
            self._tasks.start(self._send_all())

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                if not await self._send():
                    await self._broker.world.clock.sleep_ms(RETRY_MS)
                # A new state of the cluster may have settled a proposal whose answer was lost.
                self._waiting = {key: one for key, one in self._waiting.items() if _is_under_way(*one)}
        finally:
            self._sending = False

    async def _send(self) -> bool:
        """Ask once; true when something was settled by it."""
        broker = self._broker
        sent = dict(self._waiting)
        proposals = {key: proposal for key, (_, proposal) in sent.items()}
        request = AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker.broker_epoch, proposals=proposals)
        try:
            response = await broker.cluster.links.ask_controller(broker.id, request, AlterPartitionResponse, 0)
        except ConnectionFailure:
            # It may have been carried out. It stays under way and is
            # sent again; the partition epoch makes a repeat harmless.
            return False
        for key, code in response.codes.items():
            partition, proposal = sent[key]
            if code in NOT_DONE and partition.leadership is not None:
                partition.leadership.withdraw(proposal)
            if code in SETTLED or code in NOT_DONE:
                self._forget(key, proposal)
        return bool(response.codes)

    def _forget(self, key: PartitionId, proposal: IsrProposal) -> None:
        # By identity: the partition may have proposed something else meanwhile.
        if key in self._waiting and self._waiting[key][1] is proposal:
            del self._waiting[key]

    def stop(self) -> None:
        """Propose nothing more."""
        self._waiting.clear()
        self._tasks.cancel()


def _is_under_way(partition: Partition, proposal: IsrProposal) -> bool:
    return partition.leadership is not None and partition.leadership.proposal is proposal
