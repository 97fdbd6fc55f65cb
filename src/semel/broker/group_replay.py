"""Applying records of `__consumer_offsets` while a partition is loaded.

Keeps: replaying what was written gives the state that was answered for.
"""

from semel.broker.consumer_group_records import ConsumerRecord, decode_record
from semel.broker.group_core import GroupCore
from semel.broker.group_records import GroupKey, decode_group_value, decode_key, decode_offset_value
from semel.broker.group_state import Group
from semel.broker.group_types import NO_PRODUCER_ID, LoadedRecord


def replay(core: GroupCore, record: LoadedRecord) -> None:
    """Apply one record; a kind that is not kept here is skipped."""
    key = decode_key(record.key)
    if key is None:
        change = decode_record(record.key, record.value)
        if change is not None:
            _replay_consumer(core, change)
        return
    if isinstance(key, GroupKey):
        _replay_group(core, key, record)
    elif record.value is None:
        core.offsets.remove(key)
    else:
        if core.consumer_group(key.group_id) is None:
            core.group(key.group_id)
        value = decode_offset_value(record.value)
        if record.producer_id == NO_PRODUCER_ID:
            core.offsets.put(key, value, record.offset)
        else:
            core.offsets.put_pending(record.producer_id, key, value, record.offset)


def _replay_group(core: GroupCore, key: GroupKey, record: LoadedRecord) -> None:
    if record.value is None:
        core.forget_group(key.group_id)
        return
    core.consumer_slots.pop(key.group_id, None)
    core.groups[key.group_id] = Group.loaded(key.group_id, decode_group_value(record.value))
    core.schedule_retention()


def _replay_consumer(core: GroupCore, change: ConsumerRecord) -> None:
    """Apply a record of the consumer protocol; the protocol of the later record is the group's."""
    if change.value is not None:
        core.forget_group(change.group_id)
    elif core.consumer_group(change.group_id) is None:
        return
    slot = core.consumer_slot(change.group_id)
    slot.load(change)
    if slot.is_vacant:
        del core.consumer_slots[change.group_id]


def adopt_offsets(core: GroupCore) -> None:
    """Give offsets whose group changed its protocol just before the end of the log a group again."""
    for group_id in sorted({key.group_id for key in core.offsets.keys()}):  # noqa: SIM118  (not a mapping)
        if core.consumer_group(group_id) is None:
            core.group(group_id)
