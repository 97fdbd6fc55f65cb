"""Cases about groups, committed offsets and transactions."""

from __future__ import annotations

from collections.abc import Sequence

from semel.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from semel.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from semel.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from semel.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from semel.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from semel.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from semel.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from semel.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from semel.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from semel.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from semel.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.acls.cases import CLUSTER, GROUP, TRANSACTION, Case, Place

NOBODY = 987_654  # a producer id that was handed to nobody
COMMIT_IDS, FETCH_IDS = 10, 10


def find_group(place: Place, names: Sequence[str], _version: int) -> FindCoordinatorRequest:
    keys = [place.name(f"readers-{name}") for name in names]
    return FindCoordinatorRequest(key=keys[0], coordinator_keys=keys)


def find_transaction(place: Place, _names: Sequence[str], _version: int) -> FindCoordinatorRequest:
    key = place.name("transfers")
    return FindCoordinatorRequest(key=key, key_type=1, coordinator_keys=[key])


def join(place: Place, _names: Sequence[str], _version: int) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    return JoinGroupRequest(
        group_id=place.name("joined"),
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )


def heartbeat(place: Place, _names: Sequence[str], _version: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=place.name("readers-used"), generation_id=1, member_id="nobody")


def leave(place: Place, _names: Sequence[str], _version: int) -> LeaveGroupRequest:
    members = [MemberIdentity(member_id="nobody")]
    return LeaveGroupRequest(group_id=place.name("readers-used"), member_id="nobody", members=members)


def sync(place: Place, _names: Sequence[str], _version: int) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=place.name("readers-used"),
        generation_id=1,
        member_id="nobody",
        protocol_type="consumer",
        protocol_name="range",
    )


def describe_groups(place: Place, names: Sequence[str], _version: int) -> DescribeGroupsRequest:
    groups = [place.name(f"readers-{name}") for name in names]
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=True)


def list_groups(_place: Place, _names: Sequence[str], _version: int) -> ListGroupsRequest:
    return ListGroupsRequest()


def delete_groups(place: Place, names: Sequence[str], _version: int) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=[place.name(f"lost-{name}") for name in names])


def consumer_heartbeat(place: Place, names: Sequence[str], _version: int) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=place.name("beating"),
        member_id="me",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=[place.name(name) for name in names],
        topic_partitions=[],
    )


def describe_consumer_groups(place: Place, _names: Sequence[str], _version: int) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=[place.name("consumers")], include_authorized_operations=True)


def commit(place: Place, names: Sequence[str], version: int) -> OffsetCommitRequest:
    topics = [
        OffsetCommitRequestTopic(
            name="" if version >= COMMIT_IDS else place.name(name),
            topic_id=place.ids[name] if version >= COMMIT_IDS else None,
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
        )
        for name in names
    ]
    return OffsetCommitRequest(group_id=place.name("readers-used"), topics=topics)


def offsets(place: Place, names: Sequence[str], version: int) -> OffsetFetchRequest:
    group = place.name("readers-used")
    old = [OffsetFetchRequestTopic(name=place.name(name), partition_indexes=[0]) for name in names]
    new = [
        OffsetFetchRequestTopics(
            name="" if version >= FETCH_IDS else place.name(name),
            topic_id=place.ids[name] if version >= FETCH_IDS else None,
            partition_indexes=[0],
        )
        for name in names
    ]
    groups = [OffsetFetchRequestGroup(group_id=group, topics=new)]
    return OffsetFetchRequest(group_id=group, topics=old, groups=groups)


def all_offsets(place: Place, _names: Sequence[str], _version: int) -> OffsetFetchRequest:
    group = place.name("readers-used")
    return OffsetFetchRequest(
        group_id=group, topics=None, groups=[OffsetFetchRequestGroup(group_id=group, topics=None)]
    )


def delete_offsets(place: Place, names: Sequence[str], _version: int) -> OffsetDeleteRequest:
    row = OffsetDeleteRequestPartition(partition_index=0)
    topics = [OffsetDeleteRequestTopic(name=place.name(name), partitions=[row]) for name in names]
    return OffsetDeleteRequest(group_id=place.name("forgetful"), topics=topics)


def idempotent(_place: Place, _names: Sequence[str], _version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def transactional(place: Place, _names: Sequence[str], _version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=place.name("begun"), transaction_timeout_ms=60_000)


def add_partitions(place: Place, names: Sequence[str], _version: int) -> AddPartitionsToTxnRequest:
    topics = [AddPartitionsToTxnTopic(name=place.name(name), partitions=[0]) for name in names]
    transaction = place.name("transfers")
    many = [AddPartitionsToTxnTransaction(transactional_id=transaction, producer_id=NOBODY, topics=topics)]
    return AddPartitionsToTxnRequest(
        transactions=many,
        v3_and_below_transactional_id=transaction,
        v3_and_below_producer_id=NOBODY,
        v3_and_below_topics=topics,
    )


def add_internal(place: Place, _names: Sequence[str], _version: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=place.name("transfers"),
        v3_and_below_producer_id=NOBODY,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=place.name("used"), partitions=[0]),
            AddPartitionsToTxnTopic(name="__consumer_offsets", partitions=[0]),
        ],
    )


def add_offsets(place: Place, _names: Sequence[str], _version: int) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=place.name("transfers"), group_id=place.name("readers-used"), producer_id=NOBODY
    )


def end(place: Place, _names: Sequence[str], _version: int) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=place.name("transfers"), producer_id=NOBODY, committed=True)


def markers(place: Place, _names: Sequence[str], _version: int) -> WriteTxnMarkersRequest:
    # Into a topic of their own: Apache Kafka begins another segment with a record of today after one of long ago.
    topics = [WritableTxnMarkerTopic(name=place.name("marked"), partition_indexes=[0])]
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=NOBODY, topics=topics)])


def commit_in_transaction(place: Place, names: Sequence[str], _version: int) -> TxnOffsetCommitRequest:
    row = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    return TxnOffsetCommitRequest(
        transactional_id=place.name("transfers"),
        group_id=place.name("readers-used"),
        producer_id=NOBODY,
        topics=[TxnOffsetCommitRequestTopic(name=place.name(name), partitions=[row]) for name in names],
    )


def describe_transactions(place: Place, _names: Sequence[str], _version: int) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(transactional_ids=[place.name("open")])


def list_transactions(_place: Place, _names: Sequence[str], _version: int) -> ListTransactionsRequest:
    return ListTransactionsRequest()


READ_GROUP = ("READ", "GROUP", "readers-used")
WRITE_TRANSACTION = ("WRITE", "TRANSACTIONAL_ID", "transfers")

GROUP_CASES = (
    Case(
        name="find a group's coordinator",
        response=FindCoordinatorResponse,
        request=find_group,
        needs=(("DESCRIBE", "GROUP", "readers-used"),),
        refused=GROUP,
        mixed=True,
    ),
    Case(
        name="find a transaction's coordinator",
        response=FindCoordinatorResponse,
        request=find_transaction,
        needs=(("DESCRIBE", "TRANSACTIONAL_ID", "transfers"),),
        refused=TRANSACTION,
        versions=range(1, 7),
    ),
    Case(name="join", response=JoinGroupResponse, request=join, needs=(("READ", "GROUP", "joined"),), refused=GROUP),
    Case(name="heartbeat", response=HeartbeatResponse, request=heartbeat, needs=(READ_GROUP,), refused=GROUP),
    Case(name="leave", response=LeaveGroupResponse, request=leave, needs=(READ_GROUP,), refused=GROUP),
    Case(name="sync", response=SyncGroupResponse, request=sync, needs=(READ_GROUP,), refused=GROUP),
    Case(
        name="describe groups",
        response=DescribeGroupsResponse,
        request=describe_groups,
        needs=(("DESCRIBE", "GROUP", "readers-used"),),
        refused=GROUP,
        mixed=True,
    ),
    Case(
        name="list groups",
        response=ListGroupsResponse,
        request=list_groups,
        needs=(("DESCRIBE", "GROUP", "readers-used"),),
        refused=None,
        hiding=(0,),
    ),
    Case(
        name="list all groups",
        response=ListGroupsResponse,
        request=list_groups,
        needs=(("DESCRIBE",),),
        refused=None,
        hiding=(0,),
    ),
    Case(
        name="delete groups",
        response=DeleteGroupsResponse,
        request=delete_groups,
        needs=(("DELETE", "GROUP", "lost-used"),),
        refused=GROUP,
        mixed=True,
    ),
    Case(
        name="consumer group heartbeat",
        response=ConsumerGroupHeartbeatResponse,
        request=consumer_heartbeat,
        needs=(("READ", "GROUP", "beating"), ("DESCRIBE", "TOPIC", "used")),
        refused=None,
        mixed=True,
    ),
    Case(
        name="describe consumer groups",
        response=ConsumerGroupDescribeResponse,
        request=describe_consumer_groups,
        needs=(("DESCRIBE", "GROUP", "consumers"), ("DESCRIBE", "TOPIC", "used")),
        refused=None,
    ),
    Case(
        name="commit offsets",
        response=OffsetCommitResponse,
        request=commit,
        needs=(READ_GROUP, ("READ", "TOPIC", "used")),
        refused=None,
        mixed=True,
    ),
    Case(
        name="fetch offsets",
        response=OffsetFetchResponse,
        request=offsets,
        needs=(("DESCRIBE", "GROUP", "readers-used"), ("DESCRIBE", "TOPIC", "used")),
        refused=None,
        mixed=True,
    ),
    Case(
        name="fetch all offsets",
        response=OffsetFetchResponse,
        request=all_offsets,
        needs=(("DESCRIBE", "GROUP", "readers-used"), ("DESCRIBE", "TOPIC", "used")),
        refused=None,
        hiding=(1,),
        versions=range(2, 11),
    ),
    Case(
        name="delete offsets",
        response=OffsetDeleteResponse,
        request=delete_offsets,
        needs=(("DELETE", "GROUP", "forgetful"), ("READ", "TOPIC", "used")),
        refused=None,
        mixed=True,
    ),
    Case(
        name="a producer that may write idempotently",
        response=InitProducerIdResponse,
        request=idempotent,
        needs=(("IDEMPOTENT_WRITE",),),
        refused=CLUSTER,
    ),
    Case(
        name="a producer that may write to some topic",
        response=InitProducerIdResponse,
        request=idempotent,
        needs=(("WRITE", "TOPIC", "used"),),
        refused=CLUSTER,
    ),
    Case(
        name="a transactional producer",
        response=InitProducerIdResponse,
        request=transactional,
        needs=(("WRITE", "TRANSACTIONAL_ID", "begun"),),
        refused=TRANSACTION,
    ),
    Case(
        name="add partitions",
        response=AddPartitionsToTxnResponse,
        request=add_partitions,
        needs=(WRITE_TRANSACTION, ("WRITE", "TOPIC", "used")),
        refused=None,
        mixed=True,
        versions=range(4),
    ),
    Case(
        name="add partitions of internal topics",
        response=AddPartitionsToTxnResponse,
        request=add_internal,
        needs=(WRITE_TRANSACTION, ("WRITE", "TOPIC", "used")),
        refused=None,
        always_refused=True,
        versions=range(4),
    ),
    Case(
        name="add partitions as brokers do",
        response=AddPartitionsToTxnResponse,
        request=add_partitions,
        needs=(("CLUSTER_ACTION",),),
        refused=CLUSTER,
        versions=range(4, 6),
    ),
    Case(
        name="add offsets",
        response=AddOffsetsToTxnResponse,
        request=add_offsets,
        needs=(WRITE_TRANSACTION, READ_GROUP),
        refused=None,
    ),
    Case(name="end", response=EndTxnResponse, request=end, needs=(WRITE_TRANSACTION,), refused=TRANSACTION),
    Case(
        name="markers of an administrator",
        response=WriteTxnMarkersResponse,
        request=markers,
        needs=(("ALTER",),),
        refused=CLUSTER,
    ),
    Case(
        name="markers of a broker",
        response=WriteTxnMarkersResponse,
        request=markers,
        needs=(("CLUSTER_ACTION",),),
        refused=CLUSTER,
    ),
    Case(
        name="commit offsets in a transaction",
        response=TxnOffsetCommitResponse,
        request=commit_in_transaction,
        needs=(WRITE_TRANSACTION, READ_GROUP, ("READ", "TOPIC", "used")),
        refused=None,
        mixed=True,
    ),
    Case(
        name="describe transactions",
        response=DescribeTransactionsResponse,
        request=describe_transactions,
        needs=(("DESCRIBE", "TRANSACTIONAL_ID", "open"), ("DESCRIBE", "TOPIC", "used")),
        refused=None,
        hiding=(1,),
    ),
    Case(
        name="list transactions",
        response=ListTransactionsResponse,
        request=list_transactions,
        needs=(("DESCRIBE", "TRANSACTIONAL_ID", "open"),),
        refused=None,
        hiding=(0,),
    ),
)
