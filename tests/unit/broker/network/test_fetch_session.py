"""What fetch sessions remember is bounded, whatever clients ask to be remembered."""

from __future__ import annotations

import pytest

from semel.broker.network import fetch_session
from semel.broker.network.fetch_session import FetchSessions
from semel.protocol.error_codes import ErrorCode
from semel.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.world.rng import RealRng

VERSION = 12
PARTITIONS_MAX = 100


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> FetchSessions:
    monkeypatch.setattr(fetch_session, "PARTITIONS_MAX", PARTITIONS_MAX)
    return FetchSessions(RealRng(), slots_max=1_000)


def request(first: int, count: int, *, session_id: int = 0, epoch: int = 0) -> FetchRequest:
    rows = [FetchPartition(partition=index) for index in range(first, first + count)]
    return FetchRequest(session_id=session_id, session_epoch=epoch, topics=[FetchTopic(topic="t", partitions=rows)])


def opened(sessions: FetchSessions, count: int) -> int:
    session = sessions.plan_fetch(request(0, count), VERSION).session
    assert session is not None
    return session.id


def test_the_least_recently_used_session_makes_room_for_many_partitions(sessions: FetchSessions) -> None:
    oldest, kept = opened(sessions, 40), opened(sessions, 40)
    opened(sessions, 40)
    assert len(sessions) == 2
    assert sessions.plan_fetch(request(0, 0, session_id=kept, epoch=1), VERSION).error_code == ErrorCode.NONE
    refused = sessions.plan_fetch(request(0, 0, session_id=oldest, epoch=1), VERSION)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_grows_takes_the_room_of_others(sessions: FetchSessions) -> None:
    opened(sessions, 60)
    growing = opened(sessions, 30)
    plan = sessions.plan_fetch(request(1_000, 30, session_id=growing, epoch=1), VERSION)
    assert len(plan.partitions) == 60
    assert len(sessions) == 1


def test_a_session_that_grows_without_end_has_to_begin_again(sessions: FetchSessions) -> None:
    growing = opened(sessions, 60)
    refused = sessions.plan_fetch(request(1_000, 60, session_id=growing, epoch=1), VERSION)
    assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(sessions) == 0
