"""A change of a group in the making: records, and the group as they leave it.

Each step of a change sees what the steps before it wrote. Nothing is visible to others before the records are.
"""

from collections.abc import Iterable

from semel.broker.cluster_state import ClusterState
from semel.broker.consumer_group_records import ConsumerRecord, GroupValue, Kind, Value
from semel.broker.consumer_group_replay import apply_record
from semel.broker.consumer_group_state import ConsumerGroup, metadata_hash


class Draft:
    """Collects records; `group` is the group after them."""

    def __init__(self, group: ConsumerGroup) -> None:
        """Start from the group as it is."""
        self.group = group
        self.records: list[ConsumerRecord] = []

    def write(self, kind: Kind, value: Value | None, name: str = "") -> None:
        """Add one record."""
        record = ConsumerRecord(kind=kind, group_id=self.group.group_id, name=name, value=value)
        self.records.append(record)
        self.group = apply_record(self.group, record) or ConsumerGroup(group_id=self.group.group_id)

    def remove_member(self, member_id: str) -> None:
        """Forget all that is known of a member."""
        for kind in (Kind.CURRENT, Kind.TARGET, Kind.MEMBER):
            self.write(kind, None, member_id)

    def bump_epoch(self, cluster: ClusterState) -> None:
        """Ask for a new assignment, for the topics as they are now."""
        digest = metadata_hash(self.group.subscribed_topics(), cluster)
        self.write(Kind.GROUP, GroupValue(epoch=self.group.epoch + 1, metadata_hash=digest))

    def drop_unused_regexes(self) -> None:
        """Forget what regular expressions meant that nobody asks for any more."""
        for regex in sorted(self.group.regexes.keys() - self.group.regexes_in_use()):
            self.write(Kind.REGEX, None, regex)


def fence(draft: Draft, member_ids: Iterable[str], cluster: ClusterState) -> None:
    """Remove members; what they had is free, and a new assignment is asked for."""
    for member_id in member_ids:
        draft.remove_member(member_id)
    draft.drop_unused_regexes()
    draft.bump_epoch(cluster)


def bury(draft: Draft) -> None:
    """Forget a group that has no members."""
    assert not draft.group.members, "only an empty group can be deleted"
    for member_id in sorted(draft.group.targets):
        draft.write(Kind.TARGET, None, member_id)
    draft.drop_unused_regexes()
    draft.write(Kind.TARGET_EPOCH, None)
    draft.write(Kind.GROUP, None)
