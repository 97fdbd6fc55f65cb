"""Rounds of a broker: what fails for one partition is done for the others."""

import asyncio
import logging

import pytest

from semel.broker.replication.partition import Partition
from semel.engine.embedded import Cluster


def test_a_partition_that_cannot_be_synced_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []
    both = asyncio.Event()

    async def flush(self: Partition, _: int) -> None:
        asked.append(self.name)
        if len(set(asked)) == 2:
            both.set()
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Partition, "flush", flush)
    with caplog.at_level(logging.WARNING, "semel.broker"):
        config = {"log.flush.scheduler.interval.ms": "20"}
        with Cluster(brokers=1, topics=["first", "second"], flush="interval", config=config) as cluster:
            cluster.run(lambda _: both.wait())
    assert {"first-0", "second-0"} == set(asked)
    assert "syncing first-0: [Errno 5] Input/output error" in caplog.text
