"""Rules of sequences, producer epochs and markers, one by one (I1, I2, B7)."""

import pytest

from semel.broker.log.producer_state import SEQUENCE_MAX, ProducerStates, decode_snapshot, encode_snapshot
from semel.broker.log.types import AppendRefused, Origin
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import BatchHeader, Marker, encode_batch, read_header
from tests.unit.broker.log.model import NOW_MS, batch, has_open_transaction

PRODUCER = 7


def header(sequence: int, *, count: int = 1, epoch: int = 0, transactional: bool = False) -> BatchHeader:
    data = batch(
        [b"v"] * count, producer_id=PRODUCER, producer_epoch=epoch, sequence=sequence, transactional=transactional
    )
    return read_header(data)


def states_after(*headers: BatchHeader) -> ProducerStates:
    states = ProducerStates()
    offset = 0
    for one in headers:
        states.check_data(one, Origin.CLIENT)
        states.apply_data(one, offset, NOW_MS)
        offset += one.last_offset_delta + 1
    return states


def refusal(states: ProducerStates, one: BatchHeader, origin: Origin = Origin.CLIENT) -> int:
    with pytest.raises(AppendRefused) as caught:
        states.check_data(one, origin)
    return caught.value.code


def test_the_next_sequence_is_last_plus_one() -> None:
    states = states_after(header(0, count=3))
    states.check_data(header(3), Origin.CLIENT)
    assert refusal(states, header(4)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(states, header(2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_among_the_last_five_is_found_with_its_offsets() -> None:
    states = states_after(*(header(2 * number, count=2) for number in range(6)))
    seen = states.find_duplicate(header(2, count=2))
    assert seen is not None
    assert (seen.base_offset, seen.last_offset) == (2, 3)
    assert states.find_duplicate(header(0, count=2)) is None
    assert refusal(states, header(0, count=2)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeat_must_cover_the_same_sequences_in_the_same_epoch() -> None:
    states = states_after(header(0, count=3))
    assert states.find_duplicate(header(0, count=2)) is None
    assert states.find_duplicate(header(0, count=3, epoch=1)) is None


def test_sequences_wrap() -> None:
    states = states_after(header(SEQUENCE_MAX - 1, count=2))
    assert refusal(states, header(1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.check_data(header(0), Origin.CLIENT)
    crossing = states_after(header(SEQUENCE_MAX, count=3))
    assert crossing.entries[PRODUCER].last_sequence == 1
    crossing.check_data(header(2), Origin.CLIENT)


def test_an_unknown_producer_may_start_anywhere() -> None:
    states_after(header(41))


def test_a_newer_epoch_starts_at_zero() -> None:
    states = states_after(header(0))
    assert refusal(states, header(1, epoch=1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.check_data(header(0, epoch=1), Origin.CLIENT)
    states.apply_data(header(0, epoch=1), 1, NOW_MS)
    assert [seen.base_offset for seen in states.entries[PRODUCER].batches] == [1]


def test_an_older_epoch_is_refused() -> None:
    states = states_after(header(0, epoch=3))
    assert refusal(states, header(0, epoch=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states, header(0, epoch=2), Origin.COORDINATOR) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_coordinator_writes_without_sequences() -> None:
    states = states_after(header(0))
    states.check_data(header(9), Origin.COORDINATOR)


def test_records_outside_the_open_transaction_are_refused() -> None:
    states = states_after(header(0, transactional=True))
    assert refusal(states, header(1)) == ErrorCode.INVALID_TXN_STATE


def test_a_marker_ends_the_transaction_and_moves_the_epoch() -> None:
    states = states_after(header(0, transactional=True))
    undecided = [states.first_undecided_offset]
    aborted = states.apply_marker(header(-1, epoch=1), Marker.ABORT, 5, 1, NOW_MS)
    assert aborted is not None
    assert (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (0, 1, 2)
    assert [*undecided, states.first_undecided_offset] == [0, None]
    assert states.entries[PRODUCER].coordinator_epoch == 5
    assert refusal(states, header(1, epoch=0, transactional=True)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(states, header(1, epoch=1, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.check_data(header(0, epoch=1, transactional=True), Origin.CLIENT)


def test_an_aborted_transaction_knows_what_was_stable_then() -> None:
    states = states_after(header(0, transactional=True))
    other = read_header(batch(producer_id=8, sequence=0, transactional=True))
    states.apply_data(other, 1, NOW_MS)
    aborted = states.apply_marker(header(-1), Marker.ABORT, 0, 2, NOW_MS)
    assert aborted is not None
    assert aborted.last_stable_offset == 1


def test_a_marker_that_compaction_emptied_changes_nothing() -> None:
    states = states_after(header(0, transactional=True))
    empty = encode_batch([], producer_id=PRODUCER, producer_epoch=0, transactional=True, control=True)
    assert states.replay(empty, read_header(empty)) is None
    assert has_open_transaction(states, PRODUCER)


def test_a_completed_transaction_is_unstable_until_its_marker_is_replicated() -> None:
    states = states_after(header(0, transactional=True))
    states.apply_marker(header(-1), Marker.COMMIT, 0, 1, NOW_MS)
    unstable = []
    for high_watermark in (0, 1, 2):
        states.advance_high_watermark(high_watermark)
        unstable.append(states.first_unstable_offset)
    assert unstable == [0, 0, None]


def test_a_marker_of_an_older_coordinator_or_producer_epoch_is_refused() -> None:
    states = states_after(header(0, epoch=2, transactional=True))
    states.apply_marker(header(-1, epoch=2), Marker.COMMIT, 5, 1, NOW_MS)
    with pytest.raises(AppendRefused) as caught:
        states.check_marker(header(-1, epoch=2), 4, Origin.COORDINATOR, 0)
    assert caught.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    with pytest.raises(AppendRefused) as caught:
        states.check_marker(header(-1, epoch=1), 5, Origin.COORDINATOR, 0)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    states.check_marker(header(-1, epoch=1), 4, Origin.REPLICATION, 0)


def test_version_2_markers_must_raise_the_epoch_unless_they_are_repeats() -> None:
    states = states_after(header(0, epoch=2, transactional=True))
    with pytest.raises(AppendRefused) as caught:
        states.check_marker(header(-1, epoch=2), 0, Origin.COORDINATOR, 2)
    assert caught.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    states.check_marker(header(-1, epoch=2), 0, Origin.COORDINATOR, 1)
    states.check_marker(header(-1, epoch=3), 0, Origin.COORDINATOR, 2)
    states.apply_marker(header(-1, epoch=3), Marker.COMMIT, 0, 1, NOW_MS)
    states.check_marker(header(-1, epoch=3), 0, Origin.COORDINATOR, 2)


def test_a_first_transactional_write_needs_its_verification() -> None:
    states = ProducerStates()
    first = header(0, transactional=True)
    with pytest.raises(AppendRefused) as caught:
        states.check_verified(first, None)
    assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    token = states.begin_verification(PRODUCER, 0, 0, NOW_MS)
    assert token is not None
    states.check_verified(first, token)
    states.apply_data(first, 0, NOW_MS)
    assert states.begin_verification(PRODUCER, 0, 1, NOW_MS) is None
    states.check_verified(header(1, transactional=True), None)


def test_a_marker_takes_back_a_verification() -> None:
    states = ProducerStates()
    token = states.begin_verification(PRODUCER, 0, 0, NOW_MS)
    states.apply_marker(header(-1, epoch=1), Marker.ABORT, 0, 0, NOW_MS)
    with pytest.raises(AppendRefused):
        states.check_verified(header(0, transactional=True), token)


def test_a_verification_holds_later_sequences_back() -> None:
    states = ProducerStates()
    states.begin_verification(PRODUCER, 0, 3, NOW_MS)
    states.begin_verification(PRODUCER, 0, 2, NOW_MS)
    assert refusal(states, header(3, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    states.check_data(header(2, transactional=True), Origin.CLIENT)
    strict = ProducerStates()
    strict.begin_verification(PRODUCER, 0, 2, NOW_MS, requires_sequence_zero=True)
    assert refusal(strict, header(2, transactional=True)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_idle_producers_expire_unless_a_transaction_is_open() -> None:
    idle = states_after(header(0))
    idle.touch(PRODUCER, NOW_MS)
    assert idle.expire(NOW_MS + 99, 100) == 0
    assert idle.expire(NOW_MS + 100, 100) == 1
    assert not idle.entries
    busy = states_after(header(0, transactional=True))
    assert busy.expire(NOW_MS + 100, 100) == 0


def test_a_snapshot_holds_everything_and_a_damaged_one_nothing() -> None:
    states = states_after(*(header(number, transactional=number > 3) for number in range(7)))
    data = encode_snapshot(states.entries.values())
    assert decode_snapshot(data) == list(states.entries.values())
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            assert decode_snapshot(bytes(flipped)) is None
        assert decode_snapshot(data[:position]) is None
