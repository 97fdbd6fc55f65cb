"""Applying records of `__consumer_offsets` while a partition is loaded.

Keeps: replaying what was written gives the state that was answered for.
"""

from semel.broker.group_core import GroupCore
from semel.broker.group_records import GroupKey, decode_group_value, decode_key, decode_offset_value
from semel.broker.group_state import Group
from semel.broker.group_types import NO_PRODUCER_ID, LoadedRecord


def replay(core: GroupCore, record: LoadedRecord) -> None:
    """Apply one record; a kind that is not kept here is skipped."""
    key = decode_key(record.key)
    if key is None:
        return
    if isinstance(key, GroupKey):
        _replay_group(core, key, record)
    elif record.value is None:
        core.offsets.remove(key)
    else:
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
    core.groups[key.group_id] = Group.loaded(key.group_id, decode_group_value(record.value))
    core.schedule_retention()
