"""Every mechanism of replication, switched off once in this process: the tests of it must fail then.

What is replaced is a function of the broker, for as long as one body runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from semel.broker.api import k01_fetch
from semel.broker.broker import Broker
from semel.broker.controller import elections
from semel.broker.controller.publishing import Publisher
from semel.broker.controller.service import BrokerSessions, ControllerService
from semel.broker.coordinator.shell import CoordinatorShell
from semel.broker.metadata.cluster_state import MetadataRecord, PartitionState
from semel.broker.metadata.store import MetadataStore
from semel.broker.replication import fetch_loop
from semel.broker.replication.followers import IsrProposal, Leadership
from semel.broker.replication.isr_changes import IsrChanges
from semel.broker.replication.partition import Partition
from semel.broker.runtime.pause import PauseSwitch
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.controller import test_elections
from tests.unit.broker.replication import test_followers as test_replication
from tests.unit.broker.replication import test_replicated, test_replicated_coordinators

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mutation:
    """One mechanism off, and the tests that notice."""

    name: str
    apply: Callable[[Patch], None]
    caught_by: Sequence[Callable[[], None]]


def nothing(*_: object, **__: object) -> None:
    return None


def ignore_followers(patch: Patch) -> None:
    patch.setattr(Leadership, "high_watermark", lambda _, log_end_offset, *__: log_end_offset)


def count_committed_only(patch: Patch) -> None:
    patch.setattr(Leadership, "maximal_isr", property(lambda lead: lead.state.isr))


def skip_insync_minimum(patch: Patch) -> None:
    patch.setattr(Leadership, "is_under_min", lambda *_: False)


def acknowledge_at_once(patch: Patch) -> None:
    async def replicated(*_: object) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(Partition, "replicated", replicated)


def propose_anybody(patch: Patch) -> None:
    def plan_expand(lead: Leadership, replica: int, _: int = 0, **__: int) -> IsrProposal | None:
        return lead._propose((*lead.state.isr, replica)) if replica not in lead.state.isr else None

    patch.setattr(Leadership, "plan_expand", plan_expand)


def never_shrink(patch: Patch) -> None:
    patch.setattr(Partition, "expire_followers", nothing)


def never_truncate(patch: Patch) -> None:
    patch.setattr(fetch_loop, "truncation_offset", lambda partition, _: partition.log.log_end_offset)


def never_diverge(patch: Patch) -> None:
    patch.setattr(k01_fetch, "_is_prefix", lambda *_: True)


def read_to_the_end(patch: Patch) -> None:
    patch.setattr(Partition, "readable_to", lambda partition, _: partition.log.log_end_offset)


def drop_the_last(patch: Patch) -> None:
    def without(place: PartitionState, broker_id: int) -> PartitionState:
        return replace(place, isr=tuple(one for one in place.isr if one != broker_id))

    patch.setattr(elections, "without", without)


def keep_leader_epochs(patch: Patch) -> None:
    patch.setattr(elections, "led_by", lambda place, leader: replace(place, leader=leader))


def elect_anybody(patch: Patch) -> None:
    patch.setattr(ControllerService, "may_be_unclean", lambda *_: True)


def accept_any_controller(patch: Patch) -> None:
    def append(store: MetadataStore, controller_epoch: int, records: Sequence[MetadataRecord]) -> None:
        store._write(controller_epoch, records)

    patch.setattr(MetadataStore, "append", append)


def keep_leading(patch: Patch) -> None:
    patch.setattr(Partition, "_step_down", nothing)


def lead_unregistered(patch: Patch) -> None:
    patch.setattr(Broker, "_knows_this_life", lambda _: True)


def never_expire(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "expired", lambda *_: [])


def load_at_once(patch: Patch) -> None:
    patch.setattr(Partition, "is_settled", property(lambda partition: partition.leadership is not None))


def write_below_minimum(patch: Patch) -> None:
    patch.setattr(CoordinatorShell, "_check_may_append", nothing)


def never_catch_up(patch: Patch) -> None:
    patch.setattr(Publisher, "deliver", nothing)


def run_while_paused(patch: Patch) -> None:
    patch.setattr(PauseSwitch, "pause", nothing)


def send_once(patch: Patch) -> None:
    async def send_all(changes: IsrChanges) -> None:
        await changes._send()

    patch.setattr(IsrChanges, "_send_all", send_all)


MUTATIONS = (
    Mutation(
        "the high watermark ignores followers",
        ignore_followers,
        [test_replicated.test_a_consumer_reads_only_what_all_have],
    ),
    Mutation(
        "a proposal does not count yet",
        count_committed_only,
        [test_replication.test_while_a_proposal_is_under_way_both_sets_count],
    ),
    Mutation(
        "below the minimum all goes on",
        skip_insync_minimum,
        [test_replicated.test_under_the_minimum_acks_all_is_refused_and_nothing_new_is_readable],
    ),
    Mutation(
        "acks=all is answered at once",
        acknowledge_at_once,
        [
            test_replicated.test_a_leader_that_is_cut_off_acknowledges_nothing_to_all,
            test_replicated_coordinators.test_a_commit_is_answered_only_when_all_in_sync_have_it,
        ],
    ),
    Mutation(
        "who lags is proposed",
        propose_anybody,
        [test_replication.test_who_lacks_what_the_leader_began_with_is_not_proposed],
    ),
    Mutation(
        "nobody is left behind",
        never_shrink,
        [test_replicated.test_a_follower_that_lags_is_left_out_and_taken_in_again],
    ),
    Mutation(
        "a follower cuts nothing off",
        never_truncate,
        [test_replicated.test_a_dead_leader_loses_what_only_it_had_and_follows_when_it_is_back],
    ),
    Mutation(
        "a leader sees no divergence",
        never_diverge,
        [test_replicated.test_a_log_that_parts_in_the_middle_is_cut_there],
    ),
    Mutation("consumers read to the end", read_to_the_end, [test_replicated.test_a_consumer_reads_only_what_all_have]),
    Mutation(
        "the last in sync leaves", drop_the_last, [test_elections.test_nobody_leads_when_only_lagging_replicas_are_left]
    ),
    Mutation(
        "leader epochs stay",
        keep_leader_epochs,
        [test_elections.test_the_next_insync_replica_in_assignment_order_leads],
    ),
    Mutation(
        "every election may be unclean",
        elect_anybody,
        [lambda: test_replicated.test_without_insync_replicas_service_waits_or_records_are_lost({})],
    ),
    Mutation(
        "old controllers write",
        accept_any_controller,
        [
            test_elections.test_an_older_controller_can_write_nothing,
            test_replicated.test_a_controller_that_slept_through_its_end_changes_nothing,
        ],
    ),
    Mutation(
        "a leader does not step down", keep_leading, [test_replicated.test_waiting_for_a_leader_that_steps_down_ends]
    ),
    Mutation(
        "a broker leads unregistered",
        lead_unregistered,
        [test_replicated.test_a_broker_that_starts_without_a_controller_leads_nothing_yet],
    ),
    Mutation(
        "sessions never end",
        never_expire,
        [test_replicated.test_a_paused_leader_is_replaced_and_harmless_when_it_goes_on],
    ),
    Mutation(
        "coordinators load at once",
        load_at_once,
        [test_replicated_coordinators.test_what_is_not_on_all_replicas_yet_is_not_acted_upon],
    ),
    Mutation(
        "coordinators write in any place",
        write_below_minimum,
        [test_replicated_coordinators.test_below_the_minimum_the_coordinator_is_not_available],
    ),
    Mutation(
        "who was cut off hears nothing",
        never_catch_up,
        [test_replicated.test_a_broker_that_is_cut_off_from_the_controller_alone_sees_an_old_state_whole],
    ),
    Mutation(
        "a stopped broker goes on",
        run_while_paused,
        [test_replicated.test_a_paused_leader_is_replaced_and_harmless_when_it_goes_on],
    ),
    Mutation("proposals are sent once", send_once, [test_replicated.test_lost_proposals_are_sent_again]),
)
CASES = [(mutation, body) for mutation in MUTATIONS for body in mutation.caught_by]


@pytest.mark.parametrize(("mutation", "body"), CASES, ids=[f"{one.name}" for one, _ in CASES])
def test_it_is_caught(mutation: Mutation, body: Callable[[], None], monkeypatch: Patch) -> None:
    body()
    mutation.apply(monkeypatch)
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever way it fails in
        body()
