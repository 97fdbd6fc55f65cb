"""One Metadata request over a plain socket: is somebody there that speaks Kafka, and how many brokers does it know?"""

from __future__ import annotations

import socket
import struct

from semel.errors import ConnectionFailure, ProtocolError
from semel.protocol.message import decode_at, encode_bytes
from semel.protocol.messages.metadata import MetadataRequest, MetadataResponse

VERSION = 4
ANSWER_BYTES_MAX = 1 << 24
_HEAD = struct.Struct(">ihhih")
_SIZE = struct.Struct(">i")


def count_brokers(host: str, port: int, *, timeout_s: float) -> int:
    """How many brokers the one at this address knows."""
    body = encode_bytes(MetadataRequest(topics=[], allow_auto_topic_creation=False), VERSION)
    head = _HEAD.pack(len(body) + _HEAD.size - _SIZE.size, MetadataRequest.API_KEY, VERSION, 1, -1)
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(head + body)
            size = _SIZE.unpack(_read(connection, _SIZE.size))[0]
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise ProtocolError(f"{host}:{port} does not speak Kafka: an answer of {size} bytes")
            answer = _read(connection, size)
    except OSError as error:
        raise ConnectionFailure(f"{host}:{port} cannot be reached: {error}") from None
    return len(decode_at(MetadataResponse, answer, VERSION, 4)[0].brokers)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionFailure("the connection ended inside an answer")
        data += piece
    return bytes(data)
