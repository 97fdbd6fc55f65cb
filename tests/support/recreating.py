"""A topic deleted and created again under its name, with a client, so on any cluster."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.waiting import eventually

CLIENT_S_MAX = 30.0


def recreate_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Delete it, and create it as soon as it is gone."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.delete_topics([topic]).values():
        future.result(CLIENT_S_MAX)

    def created() -> bool:
        try:
            for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
                future.result(CLIENT_S_MAX)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return False  # it is being deleted still
            raise
        return True

    eventually(created, CLIENT_S_MAX, what="the topic is gone and there again")
