"""kafka-python, imported without its warnings, and without sockets that it leaves open.

It reads its schemas in a way that Python 3.11 calls deprecated. A client that is closed while it connects drops the
socket (`kafka.net.inet`); Python says so whenever it collects garbage, often in the middle of another test.
"""

import socket
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition, codec, errors
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, OffsetSpec
    from kafka.net.inet import KafkaNetSocket

__all__ = [
    "ConfigResource",
    "ConfigResourceType",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaProducer",
    "OffsetSpec",
    "TopicPartition",
    "codec",
    "errors",
]


class ClosingSocket(socket.socket):
    """Closed when nobody has it any more."""

    def __del__(self) -> None:
        self.close()


def _closing_socket(_: object, family: int, sock_type: int, proto: int) -> socket.socket:
    return ClosingSocket(family, sock_type, proto)


KafkaNetSocket.socket = _closing_socket
