"""Incremental fetch sessions (KIP-227): the broker remembers what a consumer reads and answers only what changed."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from uuid import UUID

from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.world.rng import Rng

NO_SESSION = 0
FINAL_EPOCH = -1
INITIAL_EPOCH = 0
# An int32 in the protocol. After it comes 1, since 0 asks for a new session.
EPOCH_MAX = 2**31 - 1
TOPIC_IDS_FIRST = 13
PARTITIONS_MAX = 100_000  # of all sessions together: some 50 MiB, whatever clients ask to be remembered

TopicKey = str | UUID | None
SessionKey = tuple[TopicKey, int]


@dataclass(slots=True, kw_only=True)
class Remembered:
    """One partition of a session: what the client asked, and its last answer."""

    asked: FetchPartition
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class FetchSession:
    """What one consumer reads."""

    id: int
    epoch: int
    by_id: bool
    partitions: OrderedDict[SessionKey, Remembered] = field(default_factory=OrderedDict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPlan:
    """Which partitions one request reads, and under which session."""

    session: FetchSession | None
    incremental: bool
    partitions: list[tuple[TopicKey, Remembered]]
    error_code: ErrorCode = ErrorCode.NONE


def topic_key(topic: FetchTopic, version: int) -> TopicKey:
    """How this version names a topic."""
    return topic.topic_id if version >= TOPIC_IDS_FIRST else topic.topic


class FetchSessions:
    """The sessions of one broker; the least recently used one makes room, for one more or for many partitions."""

    def __init__(self, rng: Rng, slots_max: int) -> None:
        """Start with none."""
        self._rng = rng
        self._slots_max = slots_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def plan_fetch(self, request: FetchRequest, version: int) -> FetchPlan:
        """Find or make the session of a request and list what it reads."""
        asked = [(topic_key(topic, version), partition) for topic in request.topics for partition in topic.partitions]
        if version < 7 or request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            return self._plan_full(request, version, asked)
        return self._plan_incremental(request, version, asked)

    def _plan_full(
        self, request: FetchRequest, version: int, asked: list[tuple[TopicKey, FetchPartition]]
    ) -> FetchPlan:
        # A full fetch ends the session it names, whether or not a new one begins.
        self._sessions.pop(request.session_id, None)
        partitions = [(key, Remembered(asked=partition)) for key, partition in asked]
        session = None
        if version >= 7 and request.session_epoch == INITIAL_EPOCH and self._slots_max > 0:
            session = self._new_session(by_id=version >= TOPIC_IDS_FIRST)
            session.partitions.update({(key, row.asked.partition): row for key, row in partitions})
            self._make_room()
        return FetchPlan(session=session, incremental=False, partitions=partitions)

    def _make_room(self) -> None:
        """Forget whole sessions: their consumers get an error, and ask for everything again."""
        left = sum(len(session.partitions) for session in self._sessions.values())
        # The newest stays: its consumer is being answered.
        while left > PARTITIONS_MAX and len(self._sessions) > 1:
            left -= len(self._sessions.popitem(last=False)[1].partitions)

    def _new_session(self, *, by_id: bool) -> FetchSession:
        while len(self._sessions) >= self._slots_max:
            self._sessions.popitem(last=False)
        session_id = self._rng.integer(1, 2**31 - 1)
        while session_id in self._sessions:
            session_id = self._rng.integer(1, 2**31 - 1)
        session = self._sessions[session_id] = FetchSession(id=session_id, epoch=1, by_id=by_id)
        return session

    def _plan_incremental(
        self, request: FetchRequest, version: int, asked: list[tuple[TopicKey, FetchPartition]]
    ) -> FetchPlan:
        session = self._sessions.get(request.session_id)
        if session is None:
            return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        # A request was lost or repeated: client and broker no longer agree on what was answered before.
        if session.epoch != request.session_epoch:
            return _refused(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        # A client that was upgraded or downgraded names topics otherwise; its session cannot be continued.
        if session.by_id != (version >= TOPIC_IDS_FIRST):
            return _refused(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        # Refused as unknown: the consumer begins a full fetch, which makes room for itself.
        if len(session.partitions) + len(asked) > PARTITIONS_MAX:
            del self._sessions[session.id]
            return _refused(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = 1 if session.epoch == EPOCH_MAX else session.epoch + 1
        self._sessions.move_to_end(session.id)
        for key, partition in asked:
            remembered = session.partitions.get((key, partition.partition))
            if remembered is None:
                session.partitions[key, partition.partition] = Remembered(asked=partition)
            else:
                # The last answer is kept: only what has changed since goes into the answer.
                remembered.asked = partition
        for topic in request.forgotten_topics_data:
            forgotten = topic.topic_id if version >= TOPIC_IDS_FIRST else topic.topic
            for index in topic.partitions:
                session.partitions.pop((forgotten, index), None)
        self._make_room()
        # All of the session's partitions, not only those that the request names: the
        # others are read on from where they are.
        rows = [(key, row) for (key, _), row in session.partitions.items()]
        return FetchPlan(session=session, incremental=True, partitions=rows)


def _refused(code: ErrorCode) -> FetchPlan:
    return FetchPlan(session=None, incremental=False, partitions=[], error_code=code)
