"""A client that sends whatever a seed says: requests at their extremes, cut, changed, padded, random, or silent."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

from tests.hardening.generated import Extremes, served_apis
from tests.hardening.raw import RawClient, request_frame, sized

UNANSWERED_S_MAX = 0.05


class HostileClient:
    """One seed, one stream of bytes. Connections are made as the broker ends them."""

    def __init__(self, bootstrap: str, seed: int) -> None:
        """Nothing is sent yet."""
        self._bootstrap = bootstrap
        self._rng = random.Random(seed)
        self._extremes = Extremes(self._rng)
        self._apis = served_apis()
        self._client: RawClient | None = None
        self.sent = 0

    def attack(self, requests: int) -> None:
        """Send so many requests."""
        for _ in range(requests):
            self.sent += 1
            with suppress(ConnectionError, TimeoutError):
                self._send(self._frame())
                continue
            self.close()
        self.close()

    def _frame(self) -> bytes:
        """One frame: mostly right in form, else damaged in one of many ways."""
        rng = self._rng
        request, version = self._extremes.request(rng.choice(self._apis))
        whole = request_frame(request, version, rng.getrandbits(31))
        kind = rng.randrange(8)
        if kind == 0:
            return sized(whole[4 : 4 + rng.randrange(len(whole) - 3)])  # cut short
        if kind == 1:
            changed = bytearray(whole)
            for _ in range(rng.randint(1, 8)):
                changed[rng.randrange(4, len(changed))] = rng.getrandbits(8)
            return bytes(changed)
        if kind == 2:
            return sized(whole[4:] + rng.randbytes(rng.randint(1, 100)))  # too long
        if kind == 3:
            return sized(rng.randbytes(rng.randint(0, 200)))
        if kind == 4:
            return struct.pack(">i", rng.choice([-1, 0, 1, 1 << 20, 1 << 30, (1 << 31) - 1])) + rng.randbytes(20)
        return whole

    def _send(self, frame: bytes) -> None:
        if self._client is None:
            self._client = RawClient(self._bootstrap)
            self._client.socket.settimeout(UNANSWERED_S_MAX)
        self._client.send(frame)
        if self._rng.random() < 0.1:
            self.close()  # somebody who does not wait for answers
        elif self._client.socket.recv(1 << 16) == b"":
            self.close()

    def close(self) -> None:
        """Be gone."""
        if self._client is not None:
            self._client.close()
            self._client = None
