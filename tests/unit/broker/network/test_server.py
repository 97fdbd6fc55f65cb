"""What a server leaves behind of a request that it could not decode."""

from __future__ import annotations

import struct
import sys

import pytest

from semel.broker.network.envelope import Head
from semel.broker.network.registry import apis
from semel.broker.network.server import ELEMENTS_MAX, Server
from semel.errors import ProtocolError
from semel.protocol.message import encode_bytes
from semel.protocol.message_compiler import limit_elements
from semel.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

VERSION = 12


@pytest.mark.parametrize("elements", [ELEMENTS_MAX, ELEMENTS_MAX + 1])
def test_the_limit_on_elements_ends_with_its_request(elements: int) -> None:
    """The coordinators decode what they have stored in the same thread, and that may have more."""
    body = encode_bytes(MetadataRequest(topics=[MetadataRequestTopic(name="t")] * elements), VERSION)
    frame = memoryview(struct.pack(">hhih", MetadataRequest.API_KEY, VERSION, 1, -1) + b"\0" + body)
    server = Server.__new__(Server)  # it needs no broker for this
    try:
        server._decode(apis()[MetadataRequest.API_KEY], Head(frame), frame)
    except ProtocolError:
        assert elements > ELEMENTS_MAX
    else:
        assert elements == ELEMENTS_MAX
    assert limit_elements() == sys.maxsize
