"""A cluster as a client sees it: who leads what, connections, coordinators.

Keeps: an unreachable broker costs time once, not on every call: it is left alone for a moment and others go first.
       Whose answer turned out to be old is not the one asked next: a broker that is cut off from the rest, but not from
       clients, would tell the same old leaders and coordinators again and again.
       Safe with threads (connections are per thread) and after a fork (a child process starts afresh).
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Collection
from enum import IntEnum
from typing import TypeVar

from semel.errors import BrokerError, ConnectionFailure, Outcome
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.metadata import MetadataResponse
from semel.wire.answers import Backoff, code_of, error_of
from semel.wire.connection import Connection
from semel.wire.deadline import Deadline
from semel.wire.metadata import metadata_request, read_brokers, read_topics
from semel.wire.pool import ConnectionPool, Lane
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress, TopicInfo, TopicPartition

_log = logging.getLogger(__name__)
NO_BROKER = -1
QUIET_ATTEMPTS = 3  # a broker that starts again is back by then
UNKNOWN_TOPIC_TRIES_MAX = 5  # a topic just created is not known to every broker at once

M = TypeVar("M", bound=Message)


class CoordinatorKind(IntEnum):
    """Whose coordinator is asked for; the numbers on the wire."""

    GROUP = 0
    TRANSACTION = 1


class _Memory:
    """What one process knows; threads share it, and only ever replace whole entries."""

    def __init__(self, settings: WireSettings) -> None:
        self.pid = os.getpid()
        self.pool = ConnectionPool(settings)
        self.brokers: dict[int, BrokerAddress] = {}
        self.topics: dict[str, TopicInfo] = {}
        self.coordinators: dict[tuple[CoordinatorKind, str], BrokerAddress] = {}
        self.told_by = ""  # who gave the last answer about the cluster
        self.doubted: frozenset[str] = frozenset()  # whose answer was old, or did not come


class WireCluster:
    """Metadata and connections."""

    def __init__(self, settings: WireSettings) -> None:
        """Nothing is connected yet."""
        self.settings = settings
        self._memory = _Memory(settings)

    @property
    def _own(self) -> _Memory:
        if self._memory.pid != os.getpid():
            self._memory.pool.close()  # closes this process's copies only: the parent's stay open
            self._memory = _Memory(self.settings)
        return self._memory

    def deadline(self, ms: float | None = None) -> Deadline:
        """A deadline of so many milliseconds; without a number, of `default.api.timeout.ms`."""
        return Deadline.after_ms(self.settings.api_timeout_ms if ms is None else ms)

    def request_deadline(self, deadline: Deadline) -> Deadline:
        """When one request of a chain is given up: `request.timeout.ms`, or the chain's deadline."""
        return deadline.within_ms(self.settings.request_timeout_ms)

    def backoff(self, deadline: Deadline) -> Backoff:
        """Begin a loop that asks again."""
        return Backoff(self.settings, deadline)

    def broker_ids(self, deadline: Deadline) -> list[int]:
        """Ask which brokers are up."""
        self.topics(deadline, [])
        return sorted(self._own.brokers)

    def topics(self, deadline: Deadline, names: Collection[str] | None = None) -> dict[str, TopicInfo]:
        """Ask for fresh metadata of these topics, or of all; those that do not exist are left out."""
        answer = self.call_any(metadata_request(names), MetadataResponse, deadline)
        found = read_topics(answer)
        # A broker that has just started may name none. Better the old addresses than no address.
        self._own.brokers = read_brokers(answer) or self._own.brokers
        for name in names if names is not None else list(self._own.topics):
            self._own.topics.pop(name, None)
        self._own.topics.update(found)
        return found

    def topic(self, name: str, deadline: Deadline) -> TopicInfo:
        """Give one topic, from memory when it is there; BrokerError when it does not exist."""
        known = self._own.topics.get(name)
        backoff = self.backoff(deadline)
        while known is None:
            known = self.topics(deadline, [name]).get(name)
            if known is None:
                missing = error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
                self._wait_a_little(backoff, missing)
        return known

    @staticmethod
    def _wait_a_little(backoff: Backoff, missing: BrokerError) -> None:
        if backoff.attempts + 1 >= UNKNOWN_TOPIC_TRIES_MAX:
            raise missing
        backoff.wait(missing)

    def leader(self, partition: TopicPartition, deadline: Deadline) -> int:
        """Give the broker id of the leader; waits for one until the deadline."""
        backoff = self.backoff(deadline)
        while True:
            info = self.topic(partition.topic, deadline).partitions.get(partition.partition)
            # Metadata may name a leader before it lists its address.
            if info is not None and info.leader != NO_BROKER and info.leader in self._own.brokers:
                return info.leader
            self.forget(partition.topic)
            if info is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                self._wait_a_little(backoff, error_of(code, f"partition {partition} does not exist"))
            else:
                backoff.wait(error_of(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition} has no leader"))

    def forget(self, *topics: str, led_by: BrokerAddress | None = None) -> None:
        """Ask for these topics again when they are next needed: a leader has moved.

        The old one, `led_by`, is not the one to ask where to: cut off from the others, it would name itself.
        """
        for topic in topics:
            self._own.topics.pop(topic, None)
        self._own.doubted = frozenset({self._own.told_by, str(led_by)})

    def connection(self, broker_id: int, deadline: Deadline) -> Connection:
        """Give this thread's connection for data to a broker, made now if need be.

        Who leaves with answers still under way closes it.
        """
        address = self._own.brokers.get(broker_id)
        if address is None:
            raise ConnectionFailure(f"broker {broker_id} is not known", outcome=Outcome.DID_NOT_HAPPEN)
        return self._own.pool.get(address, Lane.DATA, deadline)

    def rests(self, broker_id: int) -> bool:
        """Whether this broker could not be reached a moment ago."""
        address = self._own.brokers.get(broker_id)
        return address is None or self._own.pool.rests(address)

    def any_connection(self, deadline: Deadline) -> Connection:
        """Give a connection to whichever broker can be reached; tries all of them until the deadline."""
        backoff = self.backoff(deadline)
        while True:
            # Any open connection will do, so a question costs no new one.
            idle = [each for each in self._own.pool.idle_ones() if str(each.address) not in self._own.doubted]
            if idle:
                return idle[0]
            failures: list[ConnectionFailure] = []
            for address in self._candidates():
                try:
                    return self._own.pool.get(address, Lane.ASK, deadline)
                except ConnectionFailure as failure:
                    failures.append(failure)
            none_reached = _none_reached(failures)
            if backoff.attempts == QUIET_ATTEMPTS:
                # Somebody who watches a start that hangs sees why, long before the deadline ends it.
                _log.warning("%s; trying for %.0f s more", none_reached.summary, deadline.left_s)
            backoff.wait(none_reached)

    def _candidates(self) -> list[BrokerAddress]:
        # The bootstrap addresses stay candidates for ever: all brokers that were known may have been replaced.
        bootstrap = [BrokerAddress(id=NO_BROKER, host=host, port=port) for host, port in self.settings.bootstrap]
        pool, doubted = self._own.pool, self._own.doubted
        return sorted(
            [*self._own.brokers.values(), *bootstrap], key=lambda each: (pool.rests(each), str(each) in doubted)
        )

    def call_any(self, request: Message, response: type[M], deadline: Deadline, *, changes: bool = False) -> M:
        """Ask whichever broker answers, again after a lost connection.

        For questions, and for `changes` that are harmless when they are made twice.
        """
        backoff = self.backoff(deadline)
        while True:
            try:
                connection = self.any_connection(deadline)
                answer = connection.call(request, response, self.request_deadline(deadline))
            except ConnectionFailure as failure:
                if not changes:
                    # A question has no effect, whether it arrived or not.
                    failure.outcome = Outcome.DID_NOT_HAPPEN
                backoff.wait(failure)
            else:
                self._own.told_by = str(connection.address)
                return answer

    def coordinator(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> BrokerAddress:
        """Find the coordinator of a group or a transactional id; waits until there is one."""
        known = self._own.coordinators.get((kind, key))
        backoff = self.backoff(deadline)
        while known is None:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            known = self._read_coordinator(self.call_any(request, FindCoordinatorResponse, deadline), key, backoff)
        self._own.coordinators[kind, key] = known
        return known

    @staticmethod
    def _read_coordinator(answer: FindCoordinatorResponse, key: str, backoff: Backoff) -> BrokerAddress | None:
        row = answer.coordinators[0] if answer.coordinators else answer
        if not row.error_code:
            return BrokerAddress(id=row.node_id, host=row.host, port=row.port)
        error = error_of(row.error_code, f"looking for the coordinator of {key!r}", row.error_message)
        if not code_of(row.error_code).retriable:
            raise error
        backoff.wait(error)
        return None

    def coordinator_connection(self, kind: CoordinatorKind, key: str, deadline: Deadline) -> Connection:
        """Give this thread's connection to a coordinator."""
        return self._own.pool.get(self.coordinator(kind, key, deadline), Lane.ASK, deadline)

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        """Look for it again when it is next needed: it has moved.

        It is not the one to ask where to, as in `forget`.
        """
        gone = self._own.coordinators.pop((kind, key), None)
        self._own.doubted = frozenset({self._own.told_by, str(gone)})

    def close(self) -> None:
        """Close this process's connections; the cluster may be used again."""
        self._own.pool.close()


def _none_reached(failures: list[ConnectionFailure]) -> ConnectionFailure:
    return ConnectionFailure(
        f"no broker can be reached: {failures[0].summary}",
        outcome=Outcome.DID_NOT_HAPPEN,
        because="; ".join(failure.summary for failure in failures[1:]) or failures[0].because,
        next_command="check kafka.bootstrap.servers, and that the cluster is up",
    )


_shared: dict[tuple[int, WireSettings], WireCluster] = {}


def shared_cluster(settings: WireSettings) -> WireCluster:
    """Give this process's one cluster for these settings: connections outlive a Spark task in a reused worker."""
    # By process: a forked child finds its parent's entries here, with sockets that are not its own.
    return _shared.setdefault((os.getpid(), settings), WireCluster(settings))


@atexit.register
def _close_shared() -> None:
    for (process, _), cluster in _shared.items():
        if process == os.getpid():
            cluster.close()
