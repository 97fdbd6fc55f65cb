"""Applying records of `__consumer_offsets` while a partition is loaded.

Keeps: replaying what was written gives the state that clients have seen.
"""

from semel.broker.groups.classic.state import Group
from semel.broker.groups.consumer.records import ConsumerRecord, decode_record
from semel.broker.groups.core import GroupCore
from semel.broker.groups.records import GroupKey, decode_group_value, decode_key, decode_offset_value
from semel.broker.groups.types import NO_PRODUCER_ID, LoadedRecord


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
    # A tombstone: it also takes offsets of transactions that were open when it was written.
    elif record.value is None:
        core.offsets.remove(key)
    else:
        # Offsets may be all there is of a group: consumers that assign partitions themselves do not join.
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
    # The later record says which protocol the group has.
    core.consumer_entries.pop(key.group_id, None)
    core.groups[key.group_id] = Group.loaded(key.group_id, decode_group_value(record.value))
    core.schedule_retention()


def _replay_consumer(core: GroupCore, change: ConsumerRecord) -> None:
    """Apply a record of the consumer protocol; the protocol of the later record is the group's."""
    if change.value is not None:
        core.forget_group(change.group_id)
    # Tombstones of a group that has become a classic one since.
    elif core.consumer_group(change.group_id) is None:
        return
    entry = core.consumer_entry(change.group_id)
    entry.load(change)
    if entry.is_vacant:
        del core.consumer_entries[change.group_id]


def adopt_offsets(core: GroupCore) -> None:
    """Give offsets whose group changed its protocol just before the end of the log a group again."""
    for group_id in sorted(core.offsets.group_ids()):
        if core.consumer_group(group_id) is None:
            core.group(group_id)
