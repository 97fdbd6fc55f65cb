"""Metadata records as bytes: the key names the kind, the value is JSON. They are the values of `__cluster_metadata`."""

from __future__ import annotations

import base64
import json
from types import MappingProxyType
from uuid import UUID

from semel.broker.cluster_state import (
    BrokerConfigSet,
    ClusterId,
    CredentialSet,
    MetadataRecord,
    PartitionState,
    ProducerIdsTaken,
    Topic,
    TopicRemoved,
    TopicSet,
)
from semel.errors import CorruptBatchError


def encode_record(record: MetadataRecord) -> tuple[bytes, bytes]:
    """Return key and value of one record."""
    match record:
        case ClusterId(cluster_id=cluster_id):
            return b"cluster", _json(id=cluster_id)
        case TopicSet(topic=topic):
            partitions = [[p.leader, p.leader_epoch, p.replicas, p.isr] for p in topic.partitions]
            return b"topic", _json(name=topic.name, id=str(topic.id), partitions=partitions, config=dict(topic.config))
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


def _json(**fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_record(key: bytes, value: bytes) -> MetadataRecord:
    """Read one record back; CorruptBatchError when it makes no sense."""
    try:
        return _DECODERS[key](json.loads(value))
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptBatchError(f"metadata record {key!r} makes no sense: {error}") from error


def _topic(fields: dict[str, object]) -> MetadataRecord:
    rows = fields["partitions"]
    config = fields["config"]
    assert isinstance(rows, list)
    assert isinstance(config, dict)
    partitions = tuple(
        PartitionState(leader=leader, leader_epoch=leader_epoch, replicas=tuple(replicas), isr=tuple(isr))
        for leader, leader_epoch, replicas, isr in rows
    )
    topic_id = UUID(str(fields["id"]))
    return TopicSet(
        topic=Topic(name=str(fields["name"]), id=topic_id, partitions=partitions, config=MappingProxyType(config))
    )


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


_DECODERS = MappingProxyType(
    {
        b"cluster": lambda fields: ClusterId(cluster_id=str(fields["id"])),
        b"topic": _topic,
        b"topic-removed": lambda fields: TopicRemoved(name=str(fields["name"])),
        b"broker-config": _broker_config,
        b"producer-ids": lambda fields: ProducerIdsTaken(id_next=int(str(fields["id_next"]))),
        b"credential": _credential,
    }
)
