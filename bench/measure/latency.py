"""The time from a single send to its delivery report, on all brokers in turns of a few sends each.

The turns are short, so that whatever else happens on the machine meets all of them, and both brokers have answered the
same number of sends before the first figure is taken: a broker that compiles itself while it runs is as fast by then
as it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from bench.measure import librdkafka
from bench.measure.librdkafka import Sender, percentile
from bench.measure.rounds import Samples, narrate

WARM_UP_SENDS = 20_000
TURN_SENDS = 50
VALUE_BYTES = 100
SHARES = {"p50": 0.5, "p99": 0.99}


@contextmanager
def connected(bootstraps: Mapping[str, str]) -> Iterator[dict[str, Sender]]:
    """A sender to each: idempotent, without lingering, one record in flight."""
    with ExitStack() as stack:
        senders: dict[str, Sender] = {}
        for name, bootstrap in bootstraps.items():
            topic = stack.enter_context(librdkafka.fresh_topic(bootstrap))
            senders[name] = Sender(bootstrap, topic, VALUE_BYTES, enable_idempotence=True, linger_ms=0)
            senders[name].connect()
        yield senders


def one_round(senders: Mapping[str, Sender], sends: int) -> dict[str, list[float]]:
    """So many sends to each, in turns; the times in order, for each."""
    taken: dict[str, list[float]] = {name: [] for name in senders}
    order = list(senders)
    for _ in range(0, sends, TURN_SENDS):
        for name in order:
            taken[name] += librdkafka.send_latencies(senders[name], min(TURN_SENDS, sends))
        order.reverse()
    return {name: sorted(times) for name, times in taken.items()}


def measure(bootstraps: Mapping[str, str], *, sends: int, rounds: int, warm_up_sends: int = WARM_UP_SENDS) -> Samples:
    """The rows of this measurement."""
    samples: Samples = {f"send latency, {name}": {who: [] for who in bootstraps} for name in SHARES}
    narrate("latency: warming up")
    with connected(bootstraps) as senders:
        one_round(senders, warm_up_sends)
        for number in range(rounds):
            narrate(f"latency: round {number + 1} of {rounds}")
            for who, times in one_round(senders, sends).items():
                for name, share in SHARES.items():
                    samples[f"send latency, {name}"][who].append(percentile(times, share))
    return samples
