"""Which brokers the controller has heard of lately. Pure: the time comes in with every call."""

from __future__ import annotations


class Sessions:
    """The last sign of life of each broker."""

    def __init__(self, timeout_ms: float) -> None:
        """Nobody has a session yet."""
        self._timeout_ms = timeout_ms
        self._heard_ms: dict[int, float] = {}

    def touch(self, broker_id: int, now_ms: float) -> None:
        """It was heard of."""
        self._heard_ms[broker_id] = now_ms

    def end(self, broker_id: int) -> None:
        """It is known to be gone."""
        self._heard_ms.pop(broker_id, None)

    def expired(self, now_ms: float) -> list[int]:
        """Whose session has run out."""
        return sorted(one for one, heard_ms in self._heard_ms.items() if now_ms - heard_ms > self._timeout_ms)

    def excuse(self, ms: float) -> None:
        """The controller itself did not listen for this long, so nobody's silence in that time counts."""
        self._heard_ms = {one: heard_ms + ms for one, heard_ms in self._heard_ms.items()}
