"""The leader's view of its followers, without clock, log or tasks.

Keeps: R1 the high watermark never passes a replica that counts; R2 one proposal at a time, and both sets count until it
       is settled; R3 who is proposed has caught up.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.broker.metadata.cluster_state import PartitionState
from semel.broker.replication.followers import UNKNOWN_OFFSET, Leadership

LAG_MS_MAX = 1000.0
PLACE = PartitionState(leader=1, leader_epoch=3, replicas=(1, 2, 3), isr=(1, 2, 3), partition_epoch=7)


def leadership(place: PartitionState = PLACE, *, log_end_offset: int = 10, dead: tuple[int, ...] = ()) -> Leadership:
    return Leadership(
        1,
        place,
        log_end_offset=log_end_offset,
        lag_ms_max=LAG_MS_MAX,
        now_ms=0.0,
        eligible=lambda broker_id, broker_epoch: broker_id not in dead and broker_epoch == 50,
    )


def fetch(lead: Leadership, replica: int, offset: int, end: int, now_ms: float = 0.0) -> None:
    assert lead.note_fetch(replica, 50, offset, end, now_ms)


def accept(lead: Leadership, *isr: int) -> None:
    place = replace(lead.state, isr=isr, partition_epoch=lead.state.partition_epoch + 1)
    lead.change_state(place, 0.0)


def test_nothing_is_known_before_every_insync_follower_was_heard() -> None:
    lead = leadership()
    fetch(lead, 2, 10, 10)
    assert lead.high_watermark(10, 1, 0.0) == UNKNOWN_OFFSET
    fetch(lead, 3, 8, 10)
    assert lead.high_watermark(10, 1, 0.0) == 8


def test_the_high_watermark_is_the_smallest_log_end_of_those_in_sync() -> None:
    lead = leadership()
    fetch(lead, 2, 14, 20)
    fetch(lead, 3, 12, 20)
    assert lead.high_watermark(20, 1, 0.0) == 12
    accept(lead, 1, 2)
    late_ms = 2 * LAG_MS_MAX
    assert lead.high_watermark(20, 1, late_ms) == 14, "a follower that lags and is out of sync holds nothing back"


def test_under_the_minimum_nothing_becomes_readable() -> None:
    lead = leadership(replace(PLACE, isr=(1,)))
    assert lead.is_under_min(2)
    assert lead.high_watermark(20, 2, 0.0) == UNKNOWN_OFFSET
    assert lead.high_watermark(20, 1, 0.0) == 20
    assert not leadership(replace(PLACE, replicas=(1,), isr=(1,))).is_under_min(2), "one replica cannot be two"


def test_who_has_caught_up_is_proposed_once() -> None:
    lead = leadership(replace(PLACE, isr=(1, 2)), log_end_offset=10)
    fetch(lead, 2, 20, 20)
    fetch(lead, 3, 15, 20)
    assert lead.plan_expand(3, high_watermark=20) is None
    fetch(lead, 3, 20, 20)
    proposal = lead.plan_expand(3, high_watermark=20)
    assert proposal is not None
    assert proposal.replicas == (1, 2, 3)
    assert (proposal.leader_epoch, proposal.partition_epoch) == (3, 7)
    assert lead.plan_expand(3, high_watermark=20) is None
    accept(lead, 1, 2, 3)
    assert lead.proposal is None


def test_who_lacks_what_the_leader_began_with_is_not_proposed() -> None:
    lead = leadership(replace(PLACE, isr=(1,)), log_end_offset=10)
    fetch(lead, 2, 9, 10)
    assert lead.plan_expand(2, high_watermark=5) is None
    fetch(lead, 2, 10, 10)
    assert lead.plan_expand(2, high_watermark=5) is not None


def test_a_fenced_broker_and_an_older_life_are_not_proposed() -> None:
    lead = leadership(replace(PLACE, isr=(1,)), dead=(3,))
    fetch(lead, 3, 10, 10)
    assert lead.plan_expand(3, high_watermark=10) is None
    assert lead.note_fetch(2, 49, 10, 10, 0.0)
    assert lead.plan_expand(2, high_watermark=10) is None
    fetch(lead, 2, 10, 10)
    assert not lead.note_fetch(2, 49, 5, 10, 0.0), "an older life of a broker is not listened to any more"
    assert lead.followers[2].log_end_offset == 10
    assert not lead.note_fetch(9, 50, 10, 10, 0.0)


def test_while_a_proposal_is_under_way_both_sets_count() -> None:
    lead = leadership(replace(PLACE, isr=(1, 2)), log_end_offset=0)
    fetch(lead, 2, 20, 20)
    fetch(lead, 3, 10, 10)
    assert lead.plan_expand(3, high_watermark=10) is not None
    assert lead.maximal_isr == (1, 2, 3)
    assert lead.high_watermark(20, 1, 5 * LAG_MS_MAX) == 10
    assert lead.plan_shrink(20, 5 * LAG_MS_MAX) is None
    accept(lead, 1, 2)
    assert lead.high_watermark(20, 1, 5 * LAG_MS_MAX) == 20


def test_a_follower_that_lags_is_left_behind_in_time() -> None:
    lead = leadership()
    fetch(lead, 2, 10, 10, now_ms=100)
    fetch(lead, 3, 5, 10, now_ms=100)
    assert lead.plan_shrink(12, LAG_MS_MAX) is None
    proposal = lead.plan_shrink(12, LAG_MS_MAX + 1)
    assert proposal is not None
    assert proposal.replicas == (1, 2)
    assert lead.high_watermark(12, 1, LAG_MS_MAX + 1) == 5, "until it is decided, the one that lags counts"
    lead.withdraw(proposal)
    assert lead.proposal is None


def test_a_follower_that_reaches_what_the_leader_had_is_caught_up() -> None:
    lead = leadership()
    for step in range(1, 10):  # always one fetch behind a leader that is written to all the time
        fetch(lead, 2, 10 * step, 10 * (step + 1), now_ms=500.0 * step)
    assert lead.followers[2].caught_up_ms == 500.0 * 8
    fetch(lead, 3, 10, 100, now_ms=4500)
    proposal = lead.plan_shrink(100, 4900)
    assert proposal is not None
    assert proposal.replicas == (1, 2)


def test_a_proposal_that_is_not_newer_than_the_place_is_kept() -> None:
    lead = leadership(replace(PLACE, isr=(1, 2)))
    fetch(lead, 3, 10, 10)
    assert lead.plan_expand(3, high_watermark=10) is not None
    lead.change_state(lead.state, 0.0)
    assert lead.proposal is not None


@given(
    fetches=st.lists(st.tuples(st.sampled_from([2, 3]), st.integers(0, 30)), max_size=30),
    isr=st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)]),
    insync_min=st.integers(1, 3),
)
def test_no_draw_lets_the_high_watermark_pass_a_replica_that_counts(
    fetches: list[tuple[int, int]], isr: tuple[int, ...], insync_min: int
) -> None:
    lead = leadership(replace(PLACE, isr=isr))
    for replica, offset in fetches:
        fetch(lead, replica, offset, 30)
        lead.plan_expand(replica, high_watermark=0)
    offset = lead.high_watermark(30, insync_min, 0.0)
    assert offset <= 30
    assert all(offset <= lead.followers[one].log_end_offset for one in lead.maximal_isr if one != 1)
    if len(isr) < insync_min:
        assert offset == UNKNOWN_OFFSET


@pytest.mark.parametrize("isr", [(1, 2, 3), (2, 1)])
def test_proposals_stand_in_assignment_order(isr: tuple[int, ...]) -> None:
    lead = leadership(replace(PLACE, replicas=(3, 1, 2), isr=isr))
    fetch(lead, 2, 10, 10, now_ms=10 * LAG_MS_MAX)
    fetch(lead, 3, 10, 10, now_ms=10 * LAG_MS_MAX)
    proposal = lead.plan_expand(3, 0) if 3 not in isr else lead.plan_shrink(50, 20 * LAG_MS_MAX)
    assert proposal is not None
    assert list(proposal.replicas) == [one for one in (3, 1, 2) if one in proposal.replicas]
