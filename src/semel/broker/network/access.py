"""Which rights every API needs: one table, and the one place at which requests of clients meet it.

The rights are those that Apache Kafka asks for. Each rule is asked in order; what `Each` refuses is answered by the API
file's own `refuse`, and the rest of the request goes on without it. An API without a row would be closed to everybody.

Keeps: A2 no request of a client is carried out beyond what its rights allow.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from semel.broker.metadata.acls import Operation
from semel.broker.network import access_names as names
from semel.broker.network.access_rules import (
    Each,
    InFile,
    Rule,
    Trimmed,
    Whole,
    cluster,
    group,
    shown,
    topic,
    transactional,
)
from semel.broker.network.context import Context
from semel.broker.network.registry import AnyApi
from semel.errors import ProtocolError
from semel.protocol.error_codes import ErrorCode
from semel.protocol.message import Message
from semel.protocol.messages.produce import ProduceRequest

READ, WRITE, CREATE, DELETE = Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE
ALTER, DESCRIBE, CLUSTER_ACTION = Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION
DESCRIBE_CONFIGS, ALTER_CONFIGS = Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS

# Refusals that Apache Kafka puts into words too, and the last version in which it does.
ALWAYS = 99
WORDED_LAST = MappingProxyType(
    {10: 3} | dict.fromkeys((19, 20, 29, 30, 31, 32, 33, 43, 44, 45, 46, 48, 49, 51, 55, 61), ALWAYS)
)
OPEN: tuple[Rule, ...] = ()  # everybody who is connected may ask
CLOSED: tuple[Rule, ...] = (Whole(CLUSTER_ACTION, cluster),)

RULES: MappingProxyType[int, tuple[Rule, ...]] = MappingProxyType(
    {
        # records
        0: (  # Produce
            Whole(WRITE, names.of_transactional_batches),
            Each("topic_data", WRITE, names.topic_or_id, rows="responses"),
        ),
        1: (InFile("READ on each topic"),),  # Fetch
        2: (Each("topics", DESCRIBE, topic("name"), rows="topics"),),  # ListOffsets
        21: (Each("topics", DELETE, topic("name"), rows="topics"),),  # DeleteRecords
        23: (Each("topics", DESCRIBE, topic("topic"), rows="topics", unless=CLUSTER_ACTION),),  # OffsetForLeaderEpoch
        # topics
        3: (InFile("DESCRIBE on each topic; CREATE on it or the cluster for one that is made on demand"),),  # Metadata
        75: (InFile("DESCRIBE on each topic"),),  # DescribeTopicPartitions
        19: (  # CreateTopics
            Each("topics", CREATE, topic("name"), rows="topics", unless=CREATE, once=attrgetter("name")),
            Trimmed(names.hide_configs),
        ),
        20: (  # DeleteTopics
            Each(
                names.deleted_field,
                DELETE,
                names.deleted_topic,
                rows="responses",
                unless=DELETE,
                once=names.deleted_key,
            ),
            Trimmed(names.name_described),
        ),
        37: (Each("topics", ALTER, topic("name"), rows="results", once=attrgetter("name")),),  # CreatePartitions
        # groups
        10: (  # FindCoordinator
            Whole(DESCRIBE, names.coordinator_key_before_v4),
            Each("coordinator_keys", DESCRIBE, names.coordinator_key, rows="coordinators"),
        ),
        11: (Whole(READ, group("group_id"), shape=names.no_protocol),),  # JoinGroup
        12: (Whole(READ, group("group_id")),),  # Heartbeat
        13: (Whole(READ, group("group_id")),),  # LeaveGroup
        14: (Whole(READ, group("group_id")),),  # SyncGroup
        15: (Each("groups", DESCRIBE, group(), rows="groups"),),  # DescribeGroups
        16: (shown("groups", DESCRIBE, group("group_id"), unless=DESCRIBE),),  # ListGroups
        42: (Each("groups_names", DELETE, group(), rows="results"),),  # DeleteGroups
        68: (Whole(READ, group("group_id")), Whole(DESCRIBE, names.subscribed_topics)),  # ConsumerGroupHeartbeat
        69: (  # ConsumerGroupDescribe
            Each("group_ids", DESCRIBE, group(), rows="groups"),
            Trimmed(names.hide_groups_of_hidden_topics),
        ),
        # committed offsets
        8: (  # OffsetCommit
            Whole(READ, group("group_id")),
            Each("topics", READ, names.topic_or_id, rows="topics"),
        ),
        9: (  # OffsetFetch
            Whole(DESCRIBE, names.group_before_v8, shape=names.no_offsets),
            Each("groups", DESCRIBE, group("group_id"), rows="groups"),
            InFile("DESCRIBE on each topic"),
        ),
        47: (  # OffsetDelete
            Whole(DELETE, group("group_id"), shape=names.no_topics),
            Each("topics", READ, topic("name"), rows="topics"),
        ),
        # transactions
        22: (  # InitProducerId
            Whole(WRITE, transactional("transactional_id")),
            Whole(Operation.IDEMPOTENT_WRITE, names.idempotent),
        ),
        24: (  # AddPartitionsToTxn
            Whole(CLUSTER_ACTION, names.cluster_from_v4, shape=names.no_transactions),
            Whole(WRITE, names.transactional_before_v4),
            InFile("WRITE on each topic before v4"),
        ),
        25: (Whole(WRITE, transactional("transactional_id")), Whole(READ, group("group_id"))),  # AddOffsetsToTxn
        26: (Whole(WRITE, transactional("transactional_id")),),  # EndTxn
        27: (Whole(CLUSTER_ACTION, cluster, unless=ALTER),),  # WriteTxnMarkers
        28: (  # TxnOffsetCommit
            Whole(WRITE, transactional("transactional_id")),
            Whole(READ, group("group_id")),
            Each("topics", READ, topic("name"), rows="topics"),
        ),
        61: (Each("topics", READ, topic("name"), rows="topics"),),  # DescribeProducers
        65: (  # DescribeTransactions
            Each("transactional_ids", DESCRIBE, transactional(), rows="transaction_states"),
            Trimmed(names.hide_topics_of_transactions),
        ),
        66: (shown("transaction_states", DESCRIBE, transactional("transactional_id")),),  # ListTransactions
        # settings
        32: (Each("resources", DESCRIBE_CONFIGS, names.configured, rows="results"),),  # DescribeConfigs
        33: (Each("resources", ALTER_CONFIGS, names.configured, rows="responses"),),  # AlterConfigs
        44: (Each("resources", ALTER_CONFIGS, names.configured, rows="responses"),),  # IncrementalAlterConfigs
        74: (Whole(DESCRIBE_CONFIGS, cluster),),  # ListConfigResources
        # the cluster
        29: (Whole(DESCRIBE, cluster),),  # DescribeAcls
        30: (Whole(ALTER, cluster),),  # CreateAcls
        31: (Whole(ALTER, cluster),),  # DeleteAcls
        35: (Whole(DESCRIBE, cluster, shape=names.no_folder),),  # DescribeLogDirs
        43: (Whole(ALTER, cluster),),  # ElectLeaders
        45: (Whole(ALTER, cluster),),  # AlterPartitionReassignments
        46: (Whole(DESCRIBE, cluster),),  # ListPartitionReassignments
        48: (Whole(DESCRIBE_CONFIGS, cluster),),  # DescribeClientQuotas
        49: (Whole(ALTER_CONFIGS, cluster),),  # AlterClientQuotas
        50: (Whole(DESCRIBE, cluster),),  # DescribeUserScramCredentials
        51: (Whole(ALTER, cluster),),  # AlterUserScramCredentials
        55: (Whole(DESCRIBE, cluster),),  # DescribeQuorum
        60: (InFile("DESCRIBE on the cluster to see what may be done with it"),),  # DescribeCluster
        # before anybody has authenticated
        17: OPEN,  # SaslHandshake
        18: OPEN,  # ApiVersions
        36: OPEN,  # SaslAuthenticate
    }
)


async def answer_within_rights(api: AnyApi, context: Context, request: Message) -> Message | None:
    """Answer as far as the asker's rights go."""
    rules = RULES.get(api.key, CLOSED)
    for rule in rules:
        if isinstance(rule, Whole) and (code := rule.refusal(context, request)):
            return _refuse_whole(api, context, request, rule, code)
    each = next((rule for rule in rules if isinstance(rule, Each)), None)
    response = await (api.answer(context, request) if each is None else _answer_each(api, context, request, each))
    for rule in rules:
        if isinstance(rule, Trimmed) and response is not None:
            rule.trim(context, request, response)
    return response


def _refuse_whole(api: AnyApi, context: Context, request: Message, rule: Whole, code: ErrorCode) -> Message:
    _check_is_answered(request, code)
    response = api.refuse(request, code)
    if rule.shape is not None:
        rule.shape(context, response)
    if context.version <= WORDED_LAST.get(api.key, -1):
        names.add_error_messages(response, code)
    return response


async def _answer_each(api: AnyApi, context: Context, request: Any, each: Each) -> Message | None:
    """Answer the entries that are allowed, and refuse the others one by one."""
    entries = await each.refusals(context, request)
    refused = [(entry, code) for entry, code in entries if code]
    if not refused:
        return await api.answer(context, request)
    field = each.field_in(context.version)
    # A list that is empty only now may mean "all": with nothing left there is nothing to carry out.
    response = api.response()
    if len(refused) < len(entries):
        kept = [entry for entry, code in entries if not code]
        answered = await api.answer(context, replace(request, **{field: kept}))
        response = response if answered is None else answered
    _check_is_answered(request, refused[0][1])
    rows: list[Message] = []
    for code, same in groupby(refused, lambda pair: pair[1]):
        part = api.refuse(replace(request, **{field: [entry for entry, _ in same]}), code)
        if context.version <= WORDED_LAST.get(api.key, -1):
            names.add_error_messages(part, code)
        rows += getattr(part, each.rows)
    setattr(response, each.rows, [*rows, *getattr(response, each.rows)])
    return response


def _check_is_answered(request: Message, code: ErrorCode) -> None:
    if isinstance(request, ProduceRequest) and request.acks == 0:
        raise ProtocolError(f"acks=0 produce refused with {code.name}; closing tells the client")
