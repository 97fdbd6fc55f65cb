"""Client quotas, which the embedded cluster does not have, and the quorum, which is one controller."""

from __future__ import annotations

from semel.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from semel.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from semel.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tests.differential.talk import Talk

EXACT, DEFAULT, SPECIFIED = 0, 1, 2
METADATA_TOPIC = "__cluster_metadata"


def quotas(talk: Talk) -> None:
    """DescribeClientQuotas: filters that make sense find nothing, the others are refused."""
    user = talk.name("user")
    filters = {
        "everything": (),
        "a user": (("user", EXACT, user),),
        "the default user": (("user", DEFAULT, None),),
        "a user and a client id": (("user", EXACT, user), ("client-id", SPECIFIED, None)),
        "an ip": (("ip", EXACT, "127.0.0.1"),),
        "no type": (("", EXACT, "x"),),
        "an unknown type": (("group", EXACT, "x"),),
        "the same type twice": (("user", EXACT, "x"), ("user", SPECIFIED, None)),
        "an ip and a user": (("ip", SPECIFIED, None), ("user", SPECIFIED, None)),
        "exact without a name": (("user", EXACT, None),),
        "default with a name": (("user", DEFAULT, "x"),),
        "specified with a name": (("user", SPECIFIED, "x"),),
        "an unknown match": (("user", 9, None),),
    }
    for name, parts in filters.items():
        components = [ComponentData(entity_type=kind, match_type=how, match=what) for kind, how, what in parts]
        for strict in (False, True):
            request = DescribeClientQuotasRequest(components=components, strict=strict)
            talk.each_version(f"{name}, strict {strict}", DescribeClientQuotasResponse, request)


def altered_quotas(talk: Talk) -> None:
    """AlterClientQuotas: what takes nothing away and what is no quota; then one that only Apache Kafka takes."""
    user = EntityData(entity_type="user", entity_name=talk.name("user"))
    remove = OpData(key="producer_byte_rate", remove=True)
    entries = {
        "removed where none is": ([user], [remove]),
        "nothing to do": ([user], []),
        "removed twice": ([user], [remove, remove]),
        "nobody": ([], [remove]),
        "an unknown type": ([EntityData(entity_type="group", entity_name="x")], [remove]),
        "an empty name": ([EntityData(entity_type="user", entity_name="")], [remove]),
        "an ip and a user": ([user, EntityData(entity_type="ip", entity_name="127.0.0.1")], [remove]),
    }
    for name, (entity, ops) in entries.items():
        request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])
        talk.each_version(name, AlterClientQuotasResponse, request)
    wanted = EntryData(entity=[user], ops=[OpData(key="producer_byte_rate", value=1000.0)])
    for only in (True, False):
        request = AlterClientQuotasRequest(entries=[wanted], validate_only=only)
        talk.ask(f"set, validate only {only}", request, AlterClientQuotasResponse)


def quorum(talk: Talk) -> None:
    """DescribeQuorum: of the one voter what two clusters can agree on; of any other partition everything."""

    def request(*wanted: tuple[str, tuple[int, ...]]) -> DescribeQuorumRequest:
        return DescribeQuorumRequest(
            topics=[
                TopicData(topic_name=topic, partitions=[PartitionData(partition_index=row) for row in rows])
                for topic, rows in wanted
            ]
        )

    for version in talk.common(DescribeQuorumResponse):
        found = talk.peek(request((METADATA_TOPIC, (0,))), DescribeQuorumResponse, version=version)
        row = found.topics[0].partitions[0]
        voter = row.current_voters[0]
        said = {
            "errors": (found.error_code, row.error_code, found.error_message, row.error_message),
            "topics": [(topic.topic_name, len(topic.partitions)) for topic in found.topics],
            "leader": row.leader_id,
            "has an epoch": row.leader_epoch > 0,
            "has records": row.high_watermark > 0,
            "voters": [one.replica_id for one in row.current_voters],
            "voter has all": voter.log_end_offset >= row.high_watermark,
            "voter has times": (voter.last_fetch_timestamp > 0, voter.last_caught_up_timestamp > 0),
            "observers": len(row.observers),
            "nodes": [(node.node_id, len(node.listeners)) for node in found.nodes],
        }
        talk.record(f"the metadata log v{version}", DescribeQuorumResponse, said)
    for name, wanted in {
        "another topic": ((talk.name("no"), (0,)),),
        "another partition": ((METADATA_TOPIC, (7,)),),
        "two partitions": ((METADATA_TOPIC, (0, 1)),),
        "two topics": ((METADATA_TOPIC, (0,)), (talk.name("no"), (0,))),
        "no partition": ((METADATA_TOPIC, ()),),
        "no topic": (),
    }.items():
        talk.each_version(name, DescribeQuorumResponse, request(*wanted))


SCRIPTS = {"quotas": quotas, "altered quotas": altered_quotas, "quorum": quorum}
