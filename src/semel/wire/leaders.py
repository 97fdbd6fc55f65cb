"""Asks the leaders of many partitions at once, and again for those whose leader moved or could not be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

from semel.errors import ConnectionFailure, Outcome, SemelError
from semel.protocol.message import Message
from semel.wire.answers import code_of, error_of
from semel.wire.cluster import WireCluster
from semel.wire.connection import Connection, Sent
from semel.wire.deadline import Deadline
from semel.wire.topology import TopicPartition

V = TypeVar("V")
Q = TypeVar("Q")
R = TypeVar("R", bound=Message)


class Row(NamedTuple, Generic[V]):
    """One partition's part of an answer."""

    partition: TopicPartition
    error_code: int
    value: V


class Question(NamedTuple, Generic[Q, R, V]):
    """How to ask one leader about several partitions, and how to read what it says; asking must change nothing."""

    what: str
    request: Callable[[Mapping[TopicPartition, Q]], Message]
    response: type[R]
    rows: Callable[[R], Iterable[Row[V]]]
    version_max: int | None = None


class _Asked(NamedTuple, Generic[R]):
    connection: Connection
    sent: Sent[R]
    partitions: tuple[TopicPartition, ...]


def ask_leaders(
    cluster: WireCluster, wanted: Mapping[TopicPartition, Q], question: Question[Q, R, V], deadline: Deadline
) -> dict[TopicPartition, V]:
    """Give an answer for every partition, or raise what asking again cannot heal; at the deadline the last error."""
    answers: dict[TopicPartition, V] = {}
    backoff = cluster.backoff(deadline)
    while len(answers) < len(wanted):
        # Only those without an answer: what was answered stays, so a leader that moves costs one partition and not all.
        left = {partition: value for partition, value in wanted.items() if partition not in answers}
        round_ = _Round(cluster, question, deadline)
        answers |= round_.run(left)
        if round_.failure is not None:
            # Leaders move together when a broker dies, so their topics are looked up again as a whole.
            cluster.forget(*{partition.topic for partition in left if partition not in answers})
            backoff.wait(round_.failure)
    return answers


class _Round(Generic[Q, R, V]):
    def __init__(self, cluster: WireCluster, question: Question[Q, R, V], deadline: Deadline) -> None:
        self.failure: SemelError | None = None
        self._cluster = cluster
        self._question = question
        self._deadline = deadline

    def run(self, wanted: Mapping[TopicPartition, Q]) -> dict[TopicPartition, V]:
        """Send to every leader first, so that they work at the same time; then collect."""
        answers: dict[TopicPartition, V] = {}
        asked = list(self._send(wanted))
        try:
            for each in asked:
                answers |= self._receive(each)
        except BaseException:
            # What is still under way would be read as the answers to the next question.
            for each in asked:
                each.connection.close()
            raise
        return answers

    def _receive(self, asked: _Asked[R]) -> dict[TopicPartition, V]:
        try:
            response = asked.connection.receive(asked.sent, self._cluster.request_deadline(self._deadline))
        except ConnectionFailure as failure:
            self._fail(failure)
            return {}
        return self._read(response, asked.partitions)

    def _send(self, wanted: Mapping[TopicPartition, Q]) -> Iterator[_Asked[R]]:
        for leader, partitions in by_leader(self._cluster, wanted, self._deadline).items():
            request = self._question.request({partition: wanted[partition] for partition in partitions})
            try:
                connection = self._cluster.connection(leader, self._deadline)
                limit = self._cluster.request_deadline(self._deadline)
                sent = connection.send(request, self._question.response, limit, self._question.version_max)
            except ConnectionFailure as failure:
                self._fail(failure)
            else:
                yield _Asked(connection, sent, partitions)

    def _fail(self, failure: ConnectionFailure) -> None:
        # A question changes nothing, whether it arrived or not.
        failure.outcome = Outcome.DID_NOT_HAPPEN
        self.failure = failure

    def _read(self, response: R, asked: tuple[TopicPartition, ...]) -> dict[TopicPartition, V]:
        answers: dict[TopicPartition, V] = {}
        for row in self._question.rows(response):
            # A broker that answers for more than it was asked must not overwrite what the right leader says.
            if row.partition not in asked:
                continue
            if not row.error_code:
                answers[row.partition] = row.value
                continue
            error = error_of(row.error_code, f"{self._question.what} of {row.partition}")
            if not code_of(row.error_code).retriable:
                raise error
            self.failure = error
        if self.failure is None and len(answers) < len(asked):
            self.failure = ConnectionFailure(f"{self._question.what}: a broker left out partitions in its answer")
        return answers


def by_leader(
    cluster: WireCluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> dict[int, tuple[TopicPartition, ...]]:
    """Group partitions by the broker that leads them."""
    groups: dict[int, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(cluster.leader(partition, deadline), []).append(partition)
    return {leader: tuple(group) for leader, group in groups.items()}


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Group partition numbers by topic."""
    groups: dict[str, list[int]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition.partition)
    return groups
