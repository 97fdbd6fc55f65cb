"""Metadata records as bytes: the key names the kind, the value is JSON. They are the values of `__cluster_metadata`."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from uuid import UUID

from semel.broker.metadata.acls import Acl, Operation, Pattern, Permission, Resource
from semel.broker.metadata.cluster_state import (
    AclAdded,
    AclRemoved,
    BrokerConfigSet,
    BrokerFenced,
    BrokerRegistered,
    ClusterId,
    ControllerClaimed,
    CredentialSet,
    MetadataRecord,
    Node,
    PartitionsChanged,
    PartitionState,
    ProducerIdsTaken,
    Topic,
    TopicRemoved,
    TopicSet,
)
from semel.errors import CorruptBatchError


def encode_record(record: MetadataRecord) -> tuple[bytes, bytes]:  # noqa: C901, PLR0911 - one case each
    """Return key and value of one record."""
    match record:
        case ClusterId(cluster_id=cluster_id):
            return b"cluster", _json(id=cluster_id)
        case ControllerClaimed(controller_epoch=controller_epoch):
            return b"controller", _json(controller_epoch=controller_epoch)
        case BrokerRegistered(node=node):
            return b"broker", _json(id=node.id, host=node.host, port=node.port, rack=node.rack)
        case BrokerFenced(broker_id=broker_id, fenced=fenced):
            return b"broker-fenced", _json(id=broker_id, fenced=fenced)
        case TopicSet(topic=topic):
            partitions = [_row(partition) for partition in topic.partitions]
            return b"topic", _json(name=topic.name, id=str(topic.id), partitions=partitions, config=dict(topic.config))
        case PartitionsChanged(topic=name, partitions=changed):
            # The field has kept its name, so that a new version reads the metadata log of an old one.
            rows = [[index, *_row(partition)] for index, partition in changed.items()]
            return b"partitions", _json(topic=name, places=rows)
        case TopicRemoved(name=name):
            return b"topic-removed", _json(name=name)
        case BrokerConfigSet(broker=broker, changes=changes):
            return b"broker-config", _json(broker=broker, changes=dict(changes))
        case ProducerIdsTaken(id_next=id_next):
            return b"producer-ids", _json(id_next=id_next)
        case CredentialSet():
            return b"credential", _json(
                user=record.user,
                mechanism=record.mechanism,
                iterations=record.iterations,
                keys=[base64.b64encode(part).decode() for part in (record.salt, record.stored_key, record.server_key)],
            )
        case AclAdded(acl=acl):
            return b"acl", _json(**_fields_of(acl))
        case AclRemoved(acl=acl):
            return b"acl-removed", _json(**_fields_of(acl))


def _fields_of(acl: Acl) -> dict[str, object]:
    return {
        # Names and not numbers: the metadata log stays readable, and does not depend on how the protocol numbers them.
        "resource": acl.resource.name,
        "name": acl.name,
        "pattern": acl.pattern.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }


def _acl(fields: dict[str, object]) -> Acl:
    return Acl(
        resource=Resource[str(fields["resource"])],
        name=str(fields["name"]),
        pattern=Pattern[str(fields["pattern"])],
        principal=str(fields["principal"]),
        host=str(fields["host"]),
        operation=Operation[str(fields["operation"])],
        permission=Permission[str(fields["permission"])],
    )


def _row(partition: PartitionState) -> list[object]:
    # Lists and not objects: a topic with thousands of partitions is one record.
    return [
        partition.leader,
        partition.leader_epoch,
        partition.replicas,
        partition.isr,
        partition.partition_epoch,
        partition.adding,
        partition.removing,
    ]


def _partition(row: list[object]) -> PartitionState:
    leader, leader_epoch, replicas, isr, partition_epoch, adding, removing = row
    return PartitionState(
        leader=_number(leader),
        leader_epoch=_number(leader_epoch),
        replicas=_numbers(replicas),
        isr=_numbers(isr),
        partition_epoch=_number(partition_epoch),
        adding=_numbers(adding),
        removing=_numbers(removing),
    )


def _number(value: object) -> int:
    # `isinstance` would take True for a number.
    if type(value) is not int:
        raise ValueError(f"{value!r} is no whole number")
    return value


def _numbers(values: object) -> tuple[int, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{values!r} is no list")  # noqa: TRY004 - one kind of error for bad bytes
    return tuple(map(_number, values))


def _rows(fields: dict[str, object], name: str) -> list[list[object]]:
    rows = fields[name]
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{name} is no list of lists")
    return rows


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(key: bytes, value: bytes) -> MetadataRecord:
    """Read one record back; CorruptBatchError when it makes no sense."""
    try:
        # An unknown key is damage too: a newer log must not be read as if it were shorter.
        return _DECODERS[key](json.loads(value))
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptBatchError(f"metadata record {key!r} makes no sense: {error}") from error


def _topic(fields: dict[str, object]) -> MetadataRecord:
    config = fields["config"]
    assert isinstance(config, dict)
    partitions = tuple(map(_partition, _rows(fields, "partitions")))
    topic_id = UUID(str(fields["id"]))
    return TopicSet(
        topic=Topic(name=str(fields["name"]), id=topic_id, partitions=partitions, config=MappingProxyType(config))
    )


def _partitions(fields: dict[str, object]) -> MetadataRecord:
    changed = {_number(index): _partition(row) for index, *row in _rows(fields, "places")}
    return PartitionsChanged(topic=str(fields["topic"]), partitions=changed)


def _broker(fields: dict[str, object]) -> MetadataRecord:
    rack = fields["rack"]
    node = Node(
        id=_number(fields["id"]),
        host=str(fields["host"]),
        port=_number(fields["port"]),
        rack=None if rack is None else str(rack),
    )
    return BrokerRegistered(node=node)


def _broker_config(fields: dict[str, object]) -> MetadataRecord:
    changes = fields["changes"]
    assert isinstance(changes, dict)
    return BrokerConfigSet(broker=str(fields["broker"]), changes=changes)


def _credential(fields: dict[str, object]) -> MetadataRecord:
    keys = fields["keys"]
    assert isinstance(keys, list)
    salt, stored_key, server_key = (base64.b64decode(text) for text in keys)
    return CredentialSet(
        user=str(fields["user"]),
        mechanism=str(fields["mechanism"]),
        iterations=int(str(fields["iterations"])),
        salt=salt,
        stored_key=stored_key,
        server_key=server_key,
    )


_DECODERS: Mapping[bytes, Callable[[dict[str, object]], MetadataRecord]] = MappingProxyType(
    {
        b"cluster": lambda fields: ClusterId(cluster_id=str(fields["id"])),
        b"controller": lambda fields: ControllerClaimed(controller_epoch=_number(fields["controller_epoch"])),
        b"broker": _broker,
        b"broker-fenced": lambda fields: BrokerFenced(broker_id=_number(fields["id"]), fenced=bool(fields["fenced"])),
        b"topic": _topic,
        b"partitions": _partitions,
        b"topic-removed": lambda fields: TopicRemoved(name=str(fields["name"])),
        b"broker-config": _broker_config,
        b"producer-ids": lambda fields: ProducerIdsTaken(id_next=int(str(fields["id_next"]))),
        b"credential": _credential,
        b"acl": lambda fields: AclAdded(acl=_acl(fields)),
        b"acl-removed": lambda fields: AclRemoved(acl=_acl(fields)),
    }
)
