"""K2 at the end of a process: a producer that nobody closed sends what it has, or says how much it did not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

import semel
from semel.broker.runtime.intercept import AnswerError, Delay
from semel.protocol.error_codes import ErrorCode
from tests.features.clusters import SETTINGS, Kafka

RECORDS = 100

SYNC = """
import sys, semel
def main():
    settings = {"linger.ms": 2000, "log_level": 0}
    producer = semel.Producer(sys.argv[1], guarantee="at_least_once", settings=settings, wait_ms_max=int(sys.argv[3]))
    for number in range(100):
        producer.send(sys.argv[2], str(number))
"""
DROPPED = SYNC + "main()\n"
KEPT = SYNC.replace("def main():\n", "def main():\n    global producer\n") + "main()\n"
COLLECTED = DROPPED + "import gc; gc.collect(); print('collected')\n"
ASYNC = """
import asyncio, sys, semel
async def main():
    global producer
    settings = {"linger.ms": 2000, "log_level": 0}
    producer = semel.AsyncProducer(
        sys.argv[1], guarantee="at_least_once", settings=settings, wait_ms_max=int(sys.argv[3])
    )
    await producer.__aenter__()
    for number in range(100):
        await producer.send(sys.argv[2], str(number))
asyncio.run(main())
"""
CANCELLED = ASYNC.replace(
    "asyncio.run(main())",
    """
async def closed():
    await main()
    closing = asyncio.create_task(producer.close())
    for _ in range(3):
        await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait([closing])
asyncio.run(closed())
""",
)
FORKED = KEPT + "import os\nif os.fork() == 0:\n    sys.exit()\nos.wait()\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[semel.Cluster]:
    with semel.Cluster(brokers=1, config=SETTINGS) as started:
        yield started


@pytest.fixture
def kafka(cluster: semel.Cluster) -> Iterator[Kafka]:
    yield Kafka(name="embedded", bootstrap=cluster.bootstrap)
    cluster.disarm()


def run(program: str, kafka: Kafka, topic: str, wait_ms_max: int = 60_000) -> tuple[int, str]:
    command = [sys.executable, "-c", program, kafka.bootstrap, topic, str(wait_ms_max)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    return ran.returncode, ran.stderr


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    "program", [KEPT, DROPPED, COLLECTED, ASYNC, FORKED], ids=["kept", "dropped", "gc", "async", "fork"]
)
def test_what_was_sent_and_not_closed_is_there(kafka: Kafka, program: str) -> None:
    topic = kafka.topic()
    assert run(program, kafka, topic) == (0, "")
    assert kafka.values(topic) == [str(number) for number in range(RECORDS)]


@pytest.mark.quick(1)
@pytest.mark.parametrize("program", [KEPT, ASYNC], ids=["threads", "async"])
def test_what_could_not_be_sent_is_told_and_counted(cluster: semel.Cluster, kafka: Kafka, program: str) -> None:
    topic = kafka.topic()
    slow = cluster.intercept("Produce", Delay(ms=60_000), times=None)
    code, said = run(program, kafka, topic, wait_ms_max=1_500)
    assert slow.fired > 0
    assert (code, f"{RECORDS} records" in said, "no result after 1.5 s" in said) == (120, True, True), said


@pytest.mark.quick(2)
@pytest.mark.parametrize("program", [KEPT, ASYNC, CANCELLED], ids=["threads", "async", "cancelled close"])
def test_failures_that_nobody_looked_at_are_told_at_the_end(cluster: semel.Cluster, kafka: Kafka, program: str) -> None:
    cluster.intercept("Produce", AnswerError(code=ErrorCode.TOPIC_AUTHORIZATION_FAILED), times=None)
    code, said = run(program, kafka, kafka.topic())
    assert (code, f"{RECORDS} failed" in said, "AUTHORIZATION_FAILED" in said) == (120, True, True), said
