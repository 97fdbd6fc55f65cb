"""Three brokers in virtual time: copies, acknowledgements, elections, cuts, pauses, controllers.

Keeps: R8 acks=all means on all in-sync replicas; R9 who does not lead appends nothing; R10 who comes back cuts its log
       to the leader's; R11 nobody leads before it is registered; R7 an old controller writes nothing; B9 nobody sees
       half of a change.
"""

from __future__ import annotations

import asyncio

import pytest

from semel.broker.controller.elections import partition_changed
from semel.broker.controller.reassignment import started
from semel.broker.metadata.cluster_state import OFFLINE
from semel.broker.runtime.intercept import DropRequest, DropResponse
from semel.broker.runtime.refused import Refused
from semel.errors import ConfigError
from semel.protocol.error_codes import ErrorCode
from tests.unit.broker.replication.replicated import KEY, SESSION_MS, TOPIC, Trio, play

INSYNC_2 = {"min.insync.replicas": "2"}
UNCLEAN = {"unclean.leader.election.enable": "true"}


def test_what_is_acknowledged_by_all_is_on_all() -> None:
    async def scene(trio: Trio) -> None:
        for number in range(20):
            assert await trio.produce(str(number)) is ErrorCode.NONE
            for broker_id in trio.partition.isr:
                assert trio.values(broker_id)[-1] == str(number)
        await trio.settle()
        marks = [broker.replicas[KEY].log.high_watermark for broker in trio.core.brokers.values()]
        assert marks == [20, 20, 20]

    play(scene)


def test_acks_all_waits_for_followers_and_acks_1_does_not() -> None:
    async def scene(trio: Trio) -> None:
        trio.core.cut(2, 1)
        trio.core.cut(3, 1)
        assert await trio.produce("a", acks=1) is ErrorCode.NONE
        assert await trio.produce("b", acks=-1) is ErrorCode.REQUEST_TIMED_OUT
        data = await trio.fetch(0)
        assert (data.high_watermark, data.error_code) == (0, 0)
        trio.core.heal()
        assert await trio.produce("c") is ErrorCode.NONE
        assert trio.values(3) == ["a", "b", "c"]

    play(scene)


def test_a_consumer_reads_only_what_all_have() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.cut(3, 1)
        assert await trio.produce("b", acks=1) is ErrorCode.NONE
        data = await trio.fetch(1)
        assert data.high_watermark == 1
        assert not data.records
        past_end = await trio.fetch(2)
        assert past_end.error_code == ErrorCode.NONE, "up to the log end an offset is in range, if not readable"
        assert (await trio.fetch(3)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    play(scene)


def test_a_follower_that_lags_is_left_out_and_taken_in_again() -> None:
    async def scene(trio: Trio) -> None:
        trio.core.cut(3, 1)
        await trio.produce("a", acks=1)
        await trio.until(lambda: trio.partition.isr == (1, 2), "broker 3 out of sync")
        assert await trio.produce("b") is ErrorCode.NONE
        trio.core.heal()
        await trio.all_in_sync()
        assert trio.values(3) == ["a", "b"]

    play(scene)


def test_under_the_minimum_acks_all_is_refused_and_nothing_new_is_readable() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.kill(2)
        trio.core.kill(3)
        assert trio.partition.isr == (1,)
        assert await trio.produce("b") is ErrorCode.NOT_ENOUGH_REPLICAS
        assert await trio.produce("c", acks=1) is ErrorCode.NONE
        assert (await trio.fetch(0)).high_watermark == 1
        await trio.core.restart(2)
        await trio.until(lambda: trio.partition.isr == (1, 2), "broker 2 in sync")
        assert await trio.produce("d") is ErrorCode.NONE
        assert trio.values(2) == ["a", "c", "d"]

    play(scene, topic_config=INSYNC_2)


def test_below_the_minimum_after_the_append_says_so() -> None:
    async def scene(trio: Trio) -> None:
        leader = trio.leader.partitions[KEY]
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.kill(2)
        trio.core.kill(3)
        assert await leader.replicated(1, 10) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    play(scene, topic_config=INSYNC_2)


def test_a_dead_leader_loses_what_only_it_had_and_follows_when_it_is_back() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.cut(2, 1)
        trio.core.cut(3, 1)
        for value in ("x", "y", "z"):
            assert await trio.produce(value, acks=1) is ErrorCode.NONE
        trio.core.kill(1)
        trio.core.heal()
        assert (trio.partition.leader, trio.partition.isr) == (2, (2, 3))
        assert await trio.produce("b") is ErrorCode.NONE
        await trio.core.restart(1)
        await trio.all_in_sync()
        assert trio.values(1) == trio.values(2) == trio.values(3) == ["a", "b"]

    play(scene)


def test_a_log_that_parts_in_the_middle_is_cut_there() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.cut(2, 1)
        trio.core.cut(3, 1)
        for value in ("x", "y"):
            assert await trio.produce(value, acks=1) is ErrorCode.NONE
        trio.core.kill(1)
        trio.core.heal()
        for value in ("b", "c", "d", "e"):  # longer than what the old leader has: the offsets alone tell nothing
            assert await trio.produce(value) is ErrorCode.NONE
        await trio.core.restart(1)
        await trio.all_in_sync()
        assert trio.values(1) == trio.values(2) == ["a", "b", "c", "d", "e"]

    play(scene)


def test_waiting_for_a_leader_that_steps_down_ends() -> None:
    async def scene(trio: Trio) -> None:
        leader = trio.leader.partitions[KEY]
        trio.core.cut(3, 1)
        assert await trio.produce("a", acks=1) is ErrorCode.NONE
        trio.core.move_leader(TOPIC, 0, 2)
        assert await leader.replicated(1, 10_000) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await trio.produce("b", to=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await trio.fetch(0, to=1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scene)


def test_a_paused_leader_is_replaced_and_harmless_when_it_goes_on() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        old = trio.core.brokers[1]
        trio.core.pause(1)
        await trio.until(lambda: trio.partition.leader == 2, "another leader", 3 * SESSION_MS)
        assert await trio.produce("b") is ErrorCode.NONE
        assert old.partitions[KEY].leader_epoch < trio.partition.leader_epoch, "it still believes to lead"
        stale = asyncio.ensure_future(trio.produce("stale", to=1, timeout_ms=100))
        await trio.settle()
        assert not stale.done(), "nothing is answered, not even that time is up"
        trio.core.resume(1)
        assert await stale in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)
        await trio.all_in_sync()
        assert trio.values(1) == trio.values(2) == ["a", "b"]

    play(scene)


def test_a_leader_that_is_cut_off_acknowledges_nothing_to_all() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.isolate(1)
        await trio.until(lambda: trio.partition.leader == 2, "another leader")
        assert await trio.produce("alone", to=1) is ErrorCode.REQUEST_TIMED_OUT
        assert await trio.produce("lost", to=1, acks=1) is ErrorCode.NONE
        assert await trio.produce("b") is ErrorCode.NONE
        trio.core.heal()
        await trio.all_in_sync()
        assert trio.values(1) == trio.values(2) == trio.values(3) == ["a", "b"]

    play(scene)


def test_a_broker_that_is_cut_off_from_the_controller_alone_sees_an_old_state_whole() -> None:
    async def scene(trio: Trio) -> None:
        before = trio.core.brokers[3].state
        trio.core.cut(3, 0)
        await trio.until(lambda: not trio.core.state.is_alive(3), "broker 3 fenced")
        assert trio.partition.isr == (1, 2), "it still copies, but may not be counted on"
        assert trio.core.brokers[3].state.topics == before.topics
        assert await trio.produce("a") is ErrorCode.NONE
        assert trio.partition.isr == (1, 2)
        trio.core.heal()
        assert trio.core.brokers[3].state is trio.core.state
        await trio.all_in_sync()

    play(scene)


@pytest.mark.parametrize("topic_config", [{}, UNCLEAN])
def test_without_insync_replicas_service_waits_or_records_are_lost(topic_config: dict[str, str]) -> None:
    async def scene(trio: Trio) -> None:
        trio.core.kill(2)
        trio.core.kill(3)
        for value in ("a", "b"):
            assert await trio.produce(value) is ErrorCode.NONE
        trio.core.kill(1)
        await trio.core.restart(3)
        if not topic_config:
            await trio.settle(5_000)
            assert (trio.partition.leader, trio.partition.isr) == (OFFLINE, (1,))
            assert await trio.produce("c", to=3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            await trio.core.restart(1)
            assert trio.partition.leader == 1
            await trio.until(lambda: trio.partition.isr == (1, 3), "broker 3 in sync")
            assert trio.values(3) == ["a", "b"]
        else:
            assert (trio.partition.leader, trio.partition.isr) == (3, (3,))
            assert await trio.produce("c") is ErrorCode.NONE
            await trio.core.restart(1)
            await trio.until(lambda: sorted(trio.partition.isr) == [1, 3], "broker 1 in sync")
            assert trio.values(1) == trio.values(3) == ["c"], "what was acknowledged is gone"

    play(scene, topic_config=topic_config)


def test_a_change_of_the_setting_elects_at_once() -> None:
    async def scene(trio: Trio) -> None:
        trio.core.kill(2)
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.kill(3)
        trio.core.kill(1)
        await trio.core.restart(2)
        assert trio.partition.leader == OFFLINE
        controller = trio.core.controller
        controller.commit([controller.plan_topic_config(TOPIC, UNCLEAN)])
        await trio.until(lambda: trio.partition.leader == 2, "an unclean leader")

    play(scene)


def test_data_goes_on_while_no_controller_is_active() -> None:
    async def scene(trio: Trio) -> None:
        epoch = trio.core.controller.epoch
        trio.core.kill_controller()
        assert await trio.produce("a") is ErrorCode.NONE
        with pytest.raises(Refused) as caught:
            trio.core.brokers[1].controller.take_producer_ids()
        assert caught.value.code == ErrorCode.NOT_CONTROLLER
        trio.core.kill(1)
        assert trio.partition.leader == 1, "nobody decides who leads instead"
        with pytest.raises(ConfigError, match="no controller is active"):
            trio.core.kill_controller()
        await trio.until(lambda: trio.partition.leader == 2, "a leader chosen by the new controller")
        assert trio.core.controller.epoch == epoch + 1
        assert await trio.produce("b") is ErrorCode.NONE

    play(scene)


def test_a_controller_that_slept_through_its_end_changes_nothing() -> None:
    async def scene(trio: Trio) -> None:
        old = trio.core.controller
        trio.core.pause(0)
        await trio.until(lambda: trio.core.controller is not old, "another controller")
        trio.core.move_leader(TOPIC, 0, 3)
        version = trio.core.state.version
        trio.core.resume(0)
        with pytest.raises(Refused):
            old.commit([old.plan_removal(TOPIC)])
        await trio.settle(2 * SESSION_MS)
        assert TOPIC in trio.core.state.topics
        assert trio.core.state.version >= version
        assert await trio.produce("a") is ErrorCode.NONE
        assert [trio.core.state.is_alive(one) for one in (1, 2, 3)] == [True, True, True]

    play(scene)


def test_a_controller_that_goes_on_in_time_stays() -> None:
    async def scene(trio: Trio) -> None:
        controller = trio.core.controller
        trio.core.pause(0)
        trio.core.kill(1)
        assert trio.partition.leader == 1
        await trio.settle(100)
        trio.core.resume(0)
        await trio.settle(3_000)
        assert trio.core.controller is controller
        assert trio.partition.leader == 2

    play(scene)


def test_a_broker_that_starts_without_a_controller_leads_nothing_yet() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        trio.core.kill_controller()
        trio.core.kill(1)
        await trio.core.restart(1)
        assert trio.core.state.topics[TOPIC].partitions[0].leader == 1
        assert KEY not in trio.core.brokers[1].partitions
        assert await trio.produce("b", to=1, acks=1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await trio.until(lambda: trio.partition.leader == 2, "the old life of broker 1 is over")
        await trio.all_in_sync()
        assert await trio.produce("c") is ErrorCode.NONE

    play(scene)


def test_lost_proposals_are_sent_again() -> None:
    async def scene(trio: Trio) -> None:
        lost = trio.core.intercept("AlterPartition", DropRequest(), times=2)
        unanswered = trio.core.intercept("AlterPartition", DropResponse(), times=2)
        await trio.core.restart(3)
        await trio.all_in_sync()
        assert (lost.fired, unanswered.fired) == (2, 1)
        assert await trio.produce("a") is ErrorCode.NONE

    play(scene)


def test_a_broker_that_shuts_down_hands_over_first() -> None:
    async def scene(trio: Trio) -> None:
        assert await trio.produce("a") is ErrorCode.NONE
        await trio.core.shut_down(1)
        assert (trio.partition.leader, trio.partition.isr) == (2, (2, 3))
        assert await trio.produce("b") is ErrorCode.NONE
        await trio.core.restart(1)
        await trio.all_in_sync()
        assert trio.values(1) == ["a", "b"]

    play(scene)


def test_a_partition_moves_to_other_brokers() -> None:
    async def scene(trio: Trio) -> None:
        controller = trio.core.controller
        topic = trio.core.state.topics[TOPIC]
        controller.commit([partition_changed(topic, 0, started(trio.partition, (1,), trio.core.state.is_alive))])
        assert trio.partition.replicas == (1,)
        assert KEY not in trio.core.brokers[2].replicas
        assert await trio.produce("a") is ErrorCode.NONE
        topic = trio.core.state.topics[TOPIC]
        controller.commit([partition_changed(topic, 0, started(trio.partition, (3, 2), trio.core.state.is_alive))])
        await trio.until(lambda: trio.partition.replicas == (3, 2), "the move is done")
        assert trio.partition.leader == 3
        assert KEY not in trio.core.brokers[1].replicas
        assert trio.values(2) == ["a"]
        assert await trio.produce("b") is ErrorCode.NONE

    play(scene)


def test_a_follower_begins_again_where_the_leader_s_log_starts() -> None:
    async def scene(trio: Trio) -> None:
        trio.core.kill(3)
        for value in "abcd":
            assert await trio.produce(value) is ErrorCode.NONE
        trio.leader.partitions[KEY].log.delete_records_before(2)
        trio.leader.partitions[KEY].log.roll(trio.clock.wall_ms())
        trio.leader.partitions[KEY].log.delete_records_before(4)
        assert await trio.produce("e") is ErrorCode.NONE
        await trio.core.restart(3)
        await trio.all_in_sync()
        await trio.settle()
        assert trio.values(3) == ["e"]
        starts = {one: broker.replicas[KEY].log.log_start_offset for one, broker in trio.core.brokers.items()}
        assert starts == {1: 4, 2: 4, 3: 4}

    play(scene)
