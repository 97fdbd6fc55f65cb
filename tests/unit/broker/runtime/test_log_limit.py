"""Lines that clients cause are few, and those that were left out are counted."""

from __future__ import annotations

import asyncio
import logging

import pytest

from semel.broker.runtime.log_limit import LINES_MAX, WINDOW_MS, LimitedLog
from semel.world.clock import VirtualClock
from semel.world.loop import run_virtual

MANY = 26_705
LOG = logging.getLogger("semel.test")


def test_a_flood_of_lines_becomes_a_few_and_a_number(caplog: pytest.LogCaptureFixture) -> None:
    async def flood(loop: asyncio.AbstractEventLoop) -> None:
        clock = VirtualClock(loop)
        limited = LimitedLog(LOG, clock)
        for number in range(MANY):
            limited.write(logging.WARNING, "closing %d", number)
        limited.write(logging.WARNING, "another kind")
        await clock.sleep_ms(WINDOW_MS + 1)
        limited.write(logging.WARNING, "closing %d", -1)
        await clock.sleep_ms(WINDOW_MS + 1)

    with caplog.at_level(logging.INFO, LOG.name):
        run_virtual(1, flood)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:LINES_MAX] == [f"closing {number}" for number in range(LINES_MAX)]
    assert lines[LINES_MAX:] == [
        "another kind",
        f"{MANY - LINES_MAX} more lines like this were left out in 10 s: closing %d",
        "closing -1",
    ]


def test_what_nobody_listens_to_is_not_counted(caplog: pytest.LogCaptureFixture) -> None:
    async def quiet(loop: asyncio.AbstractEventLoop) -> None:
        clock = VirtualClock(loop)
        limited = LimitedLog(LOG, clock)
        for _ in range(LINES_MAX + 5):
            limited.write(logging.DEBUG, "detail")
        await clock.sleep_ms(WINDOW_MS + 1)

    with caplog.at_level(logging.INFO, LOG.name):
        run_virtual(1, quiet)
    assert not caplog.records
