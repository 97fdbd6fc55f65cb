"""Frames over one socket: a 4-byte length and that many bytes, written without copying, read into one buffer.

Keeps: a frame that was not written whole DID_NOT_HAPPEN; one that was, and has no answer, is UNKNOWN.
       No wait is longer than its deadline, no frame larger than `answer_bytes_max`. After an error it is closed.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence
from typing import Self

from semel.errors import ConnectionFailure, Outcome, ProtocolError
from semel.protocol.message import Part, size_of
from semel.wire.deadline import Deadline
from semel.wire.settings import WireSettings
from semel.wire.topology import BrokerAddress
from semel.wire.transport import open_socket

PARTS_MAX = 512  # below the system's limit on buffers in one call
# Below this a copy costs less than another record of TLS.
JOIN_BYTES_MAX = 1 << 16
FRAME_BYTES_MIN = 4
_SIZE = struct.Struct(">i")
# What a port that speaks TLS, or HTTP, says to bytes that it does not understand.
_TLS_ALERT = 0x15
_HTTP = b"HTTP"


class Channel:
    """One end of a connection."""

    def __init__(self, peer: socket.socket, address: BrokerAddress, frame_bytes_max: int) -> None:
        """Use `open`."""
        self.closed = False
        self._socket = peer
        self._address = address
        self._frame_bytes_max = frame_bytes_max

    @classmethod
    def open(cls, address: BrokerAddress, settings: WireSettings, deadline: Deadline) -> Self:
        """Connect to a broker."""
        return cls(open_socket(address, settings, deadline), address, settings.answer_bytes_max)

    def write_frame(self, parts: Sequence[Part], deadline: Deadline) -> None:
        """Write the length and the parts."""
        buffers = [memoryview(_SIZE.pack(size_of(parts)))]
        for part in parts:
            assert isinstance(part, (bytes, bytearray, memoryview)), "a client sends bytes only"
            if len(part):
                buffers.append(memoryview(part))
        try:
            self._write_all(buffers, deadline)
        except OSError as error:
            self.close()
            raise ConnectionFailure(
                f"the connection to broker {self._address} broke while sending: {_why(error)}",
                # A broker acts on whole frames only, and this one was not sent whole.
                outcome=Outcome.DID_NOT_HAPPEN,
            ) from None
        except BaseException:
            self.close()
            raise

    def _write_all(self, buffers: list[memoryview], deadline: Deadline) -> None:
        # TLS sockets cannot gather several buffers in one call.
        if isinstance(self._socket, ssl.SSLSocket):
            for buffer in _joined(buffers):
                self._socket.settimeout(_seconds(deadline))
                self._socket.sendall(buffer)
            return
        first = 0
        while first < len(buffers):
            self._socket.settimeout(_seconds(deadline))
            # The system may take any number of bytes, and stop in the middle of a buffer: what
            # is left of it goes first next time.
            count = self._socket.sendmsg(buffers[first : first + PARTS_MAX])
            while first < len(buffers) and count >= len(buffers[first]):
                count -= len(buffers[first])
                first += 1
            if count:
                buffers[first] = buffers[first][count:]

    def read_frame(self, deadline: Deadline) -> memoryview:
        """Wait for the next frame; it is given without its length and belongs to the caller."""
        try:
            return self._read_exactly(self._read_size(deadline), deadline)
        except OSError as error:
            self.close()
            raise ConnectionFailure(
                f"the connection to broker {self._address} broke while waiting for an answer: {_why(error)}"
            ) from None
        except BaseException:
            self.close()
            raise

    def _read_size(self, deadline: Deadline) -> int:
        head = self._read_exactly(_SIZE.size, deadline)
        size = int(_SIZE.unpack(head)[0])
        # Usually no Kafka at all: the first bytes of another protocol, read as a length.
        if not FRAME_BYTES_MIN <= size <= self._frame_bytes_max:
            raise ProtocolError(
                f"broker {self._address} announces an answer of {size} bytes",
                because=_guess(head) or f"at most {self._frame_bytes_max} bytes are taken",
            )
        return size

    def _read_exactly(self, size: int, deadline: Deadline) -> memoryview:
        # One buffer of the right size, filled in place: a fetch of many megabytes is never copied together.
        whole = view = memoryview(bytearray(size))
        while view:
            self._socket.settimeout(_seconds(deadline))
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionResetError(None, "the broker closed it")
            view = view[count:]
        return whole

    def fileno(self) -> int:
        """For `select`."""
        return self._socket.fileno()

    @property
    def buffered_bytes(self) -> int:
        """Bytes that are decrypted already, which `select` does not see."""
        return self._socket.pending() if isinstance(self._socket, ssl.SSLSocket) else 0

    def close(self) -> None:
        """Close; closing twice is fine."""
        self.closed = True
        self._socket.close()


def _seconds(deadline: Deadline) -> float:
    left_s = deadline.left_s
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _why(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "the time is up"
    return error.strerror or str(error) or type(error).__name__


def _joined(buffers: list[memoryview]) -> list[memoryview]:
    # TLS makes a record of each write: small parts go together.
    return [memoryview(b"".join(buffers))] if sum(map(len, buffers)) <= JOIN_BYTES_MAX else buffers


def _guess(head: memoryview) -> str:
    if head[0] == _TLS_ALERT:
        return "the port speaks TLS: kafka.security.protocol should be SSL or SASL_SSL"
    if bytes(head) == _HTTP:
        return "an HTTP server answers there, not a Kafka broker"
    return ""
