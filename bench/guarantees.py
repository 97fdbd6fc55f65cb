"""What idempotence and transactions cost, on semel's embedded broker and on Apache Kafka, with the same client.

Everything waits for all replicas and keeps at most five requests in flight, so that a row differs from "plain" by its
guarantee alone. Figures are ratios to "plain" on the same broker in the same round: median (smallest .. largest).
First the throughput of records of 100 bytes, where more is better; then the time of one acknowledged send, or of one
transaction with one record, where less is better. A transaction that is committed every n ms holds all records sent in
that time, and reading it back begins only when it is committed: throughput is bought with that delay.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import asdict

from bench.measure.librdkafka import (
    WAIT_S_MAX,
    Sender,
    check_log_end,
    fresh_topic,
    percentile,
    send_latencies,
    send_one,
)
from bench.measure.rounds import Figures, Options, Samples, print_table, ratio, run_rounds, write_json
from bench.measure.servers import SERVERS, started

VALUE_BYTES = 100
COMMIT_MS = (10, 100, 1000)
SECONDS = 4.0
QUICK_SECONDS = 1.2
SENDS = 500
QUICK_SENDS = 50

PLAIN = "plain"
IDEMPOTENT = "idempotent"
ONE_RECORD = "a transaction of one record"


def make_sender(bootstrap: str, topic: str, *, idempotent: bool, transactional: bool = False, linger_ms: int) -> Sender:
    """Everything but the guarantee is the same."""
    own = {"transactional_id": f"bench-{uuid.uuid4().hex}"} if transactional else {}
    sender = Sender(
        bootstrap, topic, VALUE_BYTES, enable_idempotence=idempotent or transactional, linger_ms=linger_ms, **own
    )
    if transactional:
        sender.producer.init_transactions(WAIT_S_MAX)
    else:
        sender.connect()
    return sender


def send_for(sender: Sender, seconds: float) -> float:
    """Send without transactions; records acknowledged in a second."""
    before, began = sender.sent, time.perf_counter()
    while time.perf_counter() - began < seconds:
        sender.send_chunk()
    sender.flush()
    return (sender.sent - before) / (time.perf_counter() - began)


def send_in_transactions(sender: Sender, seconds: float, commit_ms: int) -> tuple[float, int]:
    """Send and commit every `commit_ms`; records committed in a second, and how many transactions that were."""
    began, commits = time.perf_counter(), 0
    while (opened := time.perf_counter()) - began < seconds:
        sender.producer.begin_transaction()
        before = sender.sent
        while time.perf_counter() - opened < commit_ms / 1000:
            sender.send_chunk()
        sender.producer.commit_transaction(WAIT_S_MAX)
        commits += sender.sent > before  # one that a busy machine left no time to write in has no marker
    return sender.sent / (time.perf_counter() - began), commits


def measure_throughput(bootstrap: str, seconds: float) -> Figures:
    """One figure for each guarantee."""
    figures: dict[str, float] = {}
    for name in (PLAIN, IDEMPOTENT):
        with fresh_topic(bootstrap) as topic:
            sender = make_sender(bootstrap, topic, idempotent=name == IDEMPOTENT, linger_ms=5)
            figures[name] = send_for(sender, seconds)
            check_log_end(bootstrap, topic, sender.sent)
    for commit_ms in COMMIT_MS:
        with fresh_topic(bootstrap) as topic:
            sender = make_sender(bootstrap, topic, idempotent=True, transactional=True, linger_ms=5)
            rate, commits = send_in_transactions(sender, seconds, commit_ms)
            figures[f"committed every {commit_ms} ms"] = rate
            check_log_end(bootstrap, topic, sender.sent + commits)  # a commit marker has an offset too
    return figures


def measure_latency(bootstrap: str, sends: int) -> Figures:
    """The median time of one send for each guarantee."""
    figures: dict[str, float] = {}
    for name in (PLAIN, IDEMPOTENT):
        with fresh_topic(bootstrap) as topic:
            sender = make_sender(bootstrap, topic, idempotent=name == IDEMPOTENT, linger_ms=0)
            figures[name] = percentile(send_latencies(sender, sends), 0.5)
    with fresh_topic(bootstrap) as topic:
        sender = make_sender(bootstrap, topic, idempotent=True, transactional=True, linger_ms=0)
        figures[ONE_RECORD] = percentile(transaction_latencies(sender, sends), 0.5)
    return figures


def transaction_latencies(sender: Sender, sends: int) -> list[float]:
    """Seconds from begin to committed, sorted."""
    taken: list[float] = []
    for _ in range(sends):
        began = time.perf_counter()
        sender.producer.begin_transaction()
        send_one(sender)
        sender.producer.commit_transaction(WAIT_S_MAX)
        taken.append(time.perf_counter() - began)
    return sorted(taken)


def show(title: str, samples: Samples) -> None:
    """Print the ratios to plain, one column for each broker."""
    brokers = list(SERVERS)
    lines = [[name, *(str(ratio(row[who], samples[PLAIN][who])) for who in brokers)] for name, row in samples.items()]
    print(title)
    print_table(["", *brokers], lines)


def as_json(samples: Samples) -> list[dict[str, object]]:
    """Every figure, and the ratios to plain."""
    return [
        {
            "name": name,
            "ratio": {who: asdict(ratio(figures, samples[PLAIN][who])) for who, figures in row.items()},
            "figures": dict(row),
        }
        for name, row in samples.items()
    ]


def main() -> None:
    """Measure and print."""
    options = Options.parse("Measure what idempotence and transactions cost.")
    seconds, sends = (QUICK_SECONDS, QUICK_SENDS) if options.quick else (SECONDS, SENDS)
    with started() as bootstraps:

        def on_each(measure: Callable[[str], Figures], label: str) -> Samples:
            return run_rounds(bootstraps, lambda who: measure(bootstraps[who]), options.rounds, label=label)

        throughput = on_each(lambda bootstrap: measure_throughput(bootstrap, seconds), "throughput")
        latency = on_each(lambda bootstrap: measure_latency(bootstrap, sends), "latency")
    show(f"throughput over plain, {options.note}", throughput)
    show("\ntime of one send over plain", latency)
    write_json(options, "guarantees", {"throughput": as_json(throughput), "latency": as_json(latency)})


if __name__ == "__main__":
    main()
