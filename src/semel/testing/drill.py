"""`semel_drill`: a cluster with input in it, faults by a seed while a test's own code works, and a count afterwards.

    @pytest.mark.semel_drill(faults=["kill-broker", "lose-response"], seeds=20)
    def test_billing(semel_drill):
        with semel_drill.faults():
            bill_all(semel_drill.bootstrap, semel_drill.source, semel_drill.target)
        semel_drill.check()

The code reads `source` until it has every record, and writes one record for each to `target`, with the id that it found
in the value. A run in which no fault was felt while the code worked has shown nothing, and fails as UNKNOWN.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from semel.drill.cells import Observed, judge
from semel.drill.drill_cluster import CONFIG, wait_in_sync
from semel.drill.numbered_records import arrived_ids, ids_of, send_ids
from semel.drill.target import BROKERS, KINDS
from semel.engine.embedded import Cluster
from semel.errors import ConfigError
from semel.faults import ClusterShape, Schedule, played
from semel.guarantee import Guarantee
from semel.history import Verdict

SOURCE, TARGET = "source", "target"
PLAYED_S_MAX = 600.0


class Drill:
    """What one test gets for one seed."""

    def __init__(self, cluster: Cluster, schedule: Schedule, ids: Sequence[str], *, partitions: int) -> None:
        """The input is written already; nothing is broken yet."""
        self.cluster = cluster
        self.schedule = schedule
        self.ids = ids
        """The ids of the input's records: each is a key, and the value."""
        self.source, self.target = SOURCE, TARGET
        self._partitions = partitions

    @property
    def bootstrap(self) -> str:
        """Addresses for `bootstrap.servers`."""
        return self.cluster.bootstrap

    @contextmanager
    def faults(self) -> Iterator[Schedule]:
        """Break the cluster by the schedule meanwhile; at its end everything is mended and in sync."""
        with played(self.cluster, self.schedule) as playing:
            yield self.schedule
            # Played to its end, so that every fault of the seed has had its time.
            playing.wait(PLAYED_S_MAX)
        wait_in_sync(self.cluster)

    def observe(self) -> Observed:
        """Count what is in the target now."""
        found = Counter(arrived_ids(self.cluster, self.target, partitions=self._partitions))
        fired = Counter[str]()
        for entry in self.schedule.entries:
            if entry.fault.fired:
                fired[entry.fault.name] += entry.fault.fired
        return Observed.count(self.ids, found, fired=dict(fired), errors=[], reason="")

    def check(self, guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE) -> Observed:
        """Fail unless the target holds what the guarantee promises, and a fault was felt."""
        observed = self.observe()
        verdict, why = judge(Guarantee.parse(guarantee), observed)
        told = (
            f"{verdict.value}: {why} (records {observed.sent}, lost {observed.lost}, doubled {observed.duplicated},"
            f" unexpected {observed.unexpected}, faults {observed.fired or 'none'})"
        )
        # UNKNOWN as well: a test in which nothing was felt has shown nothing, and must not be green.
        if verdict is not Verdict.HELD:
            raise AssertionError(told)
        return observed


@contextmanager
def drill_of(
    seed: int,
    *,
    faults: Sequence[str] = KINDS,
    records: int = 100,
    partitions: int = 2,
    seconds: float = 5,
    gap_s: float = 0.5,
) -> Iterator[Drill]:
    """A cluster of its own for one seed, with the input in it."""
    if records < 1 or partitions < 1 or seconds <= 0 or gap_s <= 0:
        raise ConfigError("a drill needs records, partitions and time", you_want="numbers above 0")
    shape = ClusterShape(brokers=BROKERS, topics={SOURCE: partitions, TARGET: partitions})
    schedule = Schedule.draw(seed, shape, kinds=list(faults), length_ms=seconds * 1000, gap_ms=gap_s * 1000)
    topics = [f"{name}:{partitions}:{BROKERS}" for name in (SOURCE, TARGET)]
    with Cluster(brokers=BROKERS, topics=topics, config=CONFIG) as cluster:
        # A fault that strikes before every replica is in sync would meet another cluster than the one it was drawn for.
        wait_in_sync(cluster)
        ids = ids_of(0, records)
        send_ids(cluster, SOURCE, ids, partitions=partitions)
        yield Drill(cluster, schedule, ids, partitions=partitions)
