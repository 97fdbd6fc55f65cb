"""A transaction that the declaration does not allow is an error of the type checker, before anything runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Lines with a mark are wrong and must be found; all others are right.
PROGRAM = """
import asyncio

import semel
from semel import Guarantee
from semel.clients.delivery import Delivered

transactional = semel.Producer("b", guarantee=Guarantee.EXACTLY_ONCE, transactional_id="t")
named = semel.Producer("b", guarantee="exactly_once", transactional_id="t")
with transactional.transaction() as tx, named.transaction():
    tx.send("t", b"v", key="k", headers=[("a", b"b")], partition=1, timestamp_ms=1)
    tx.send("t", 5)  # wrong

weak = semel.Producer("b", guarantee=Guarantee.AT_MOST_ONCE)
weak.transaction()  # wrong
least = semel.Producer("b", guarantee="at_least_once")
least.transaction()  # wrong
session = semel.Producer("b", guarantee=Guarantee.EXACTLY_ONCE)
session.transaction()  # wrong
session.send("t", b"v").result().offset
semel.Producer("b", guarantee=Guarantee.AT_LEAST_ONCE, transactional_id="t")  # wrong
semel.Producer("b")  # wrong

store = semel.SqliteStore("s.db")
seen = semel.Deduplicator(store, "payments", window_records=3)
store.transaction()  # wrong
with semel.Consumer("b", ["t"], group="g", guarantee=Guarantee.EXACTLY_ONCE, store=store) as reader:
    reader.seek("t", 0, 5)  # wrong
    reader.pause()  # wrong
    for batch in reader.batches():
        with store.transaction(batch) as t:
            t.execute("INSERT INTO r VALUES (?)", [batch[0].value])
            t.connection.commit()  # wrong
            t.commit()  # wrong
            seen.admit(t, batch[0].key or b"", batch[0].timestamp_ms)
            seen.admit(t, 5, 0)  # wrong


async def plain_send() -> "asyncio.Future[Delivered]":
    async with semel.AsyncProducer("b", guarantee=Guarantee.AT_LEAST_ONCE) as producer:
        return await producer.send("t", b"v")


async def main() -> None:
    async with semel.AsyncProducer("b", guarantee=Guarantee.EXACTLY_ONCE, transactional_id="t") as producer:
        async with producer.transaction() as tx:
            await tx.send("t", b"v")
        (await (await plain_send())).offset
    async with semel.AsyncProducer("b", guarantee=Guarantee.AT_MOST_ONCE) as plain:
        plain.transaction()  # wrong
    async with semel.AsyncConsumer("b", ["t"], group="g", guarantee=Guarantee.AT_LEAST_ONCE) as consumer:
        async for batch in consumer.batches():
            [record.value for record in batch]
    semel.AsyncConsumer("b", ["t"], group="g")  # wrong
"""


@pytest.mark.full
def test_what_the_declaration_does_not_allow_is_a_type_error(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "pyproject.toml"]
    ran = subprocess.run(
        [*command, str(program), "examples/copy_orders.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    found = {int(number) for number in re.findall(r"program\.py:(\d+): error", ran.stdout)}
    wanted = {number for number, line in enumerate(PROGRAM.splitlines(), start=1) if line.endswith("# wrong")}
    assert found == wanted, ran.stdout + ran.stderr
    assert "copy_orders" not in ran.stdout, "the example is right"
