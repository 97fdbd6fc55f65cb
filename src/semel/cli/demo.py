"""`semel demo`: a pipeline is killed in the middle, once at least once and once exactly once, and the result counted.

Orders go into an embedded cluster; a PySpark pipeline makes a payment and a shipment from each. Its driver is killed
after it wrote the rows of a micro-batch and before it committed them, then started again from its checkpoint. The exit
code is 0 when exactly once held and at least once showed the duplicates it allows, 2 when a kill did not come in time.
"""

import argparse
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from semel.cli.exit_code import ExitCode, code_of
from semel.cli.output import Format, add_format, narrate, print_json, render_table
from semel.cli.shell import interrupted_by_sigterm
from semel.errors import MissingExtraError
from semel.guarantee import Guarantee

if TYPE_CHECKING:
    from semel.cli.demo_driver import Driver
    from semel.cli.demo_orders import Count

ORDERS_MAX = 1_000_000
MICRO_BATCHES = 4
KILLED_MICRO_BATCH = 2  # the first one shows that committed rows stay
GUARANTEES = (Guarantee.AT_LEAST_ONCE, Guarantee.EXACTLY_ONCE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One guarantee's result."""

    guarantee: Guarantee
    killed: bool
    count: "Count"

    @property
    def verdict(self) -> ExitCode:
        """What the guarantee promises, and for at least once that the fault did the damage it allows."""
        count = self.count
        if not self.killed:
            return ExitCode.UNKNOWN
        if count.lost or count.unexpected:
            return ExitCode.BROKEN
        # A kill that did no damage under the weaker guarantee shows nothing about the stronger one.
        expected = self.guarantee is Guarantee.AT_LEAST_ONCE
        return ExitCode.HELD if bool(count.doubled) is expected else ExitCode.BROKEN


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_format(parser)
    parser.add_argument("--orders", type=_count, default=40_000, metavar="N", help="orders in (default 40000)")


def run(options: argparse.Namespace) -> ExitCode:
    """Run the pipeline under each guarantee and print one line each."""
    # Before a cluster is started for nothing.
    if find_spec("pyspark") is None:
        raise MissingExtraError.of("spark", "the demo")
    with interrupted_by_sigterm(), tempfile.TemporaryDirectory(prefix="semel-demo-") as folder:
        runs = [_run_killed(guarantee, options.orders, Path(folder) / guarantee) for guarantee in GUARANTEES]
    if options.format == Format.JSON:
        rows = [
            {"guarantee": one.guarantee, "killed": one.killed, **asdict(one.count), "verdict": one.verdict.name}
            for one in runs
        ]
        print_json({"schema": 1, "runs": rows})
    else:
        print(_render(runs))
    _explain(runs)
    return code_of([one.verdict for one in runs])


def _run_killed(guarantee: Guarantee, orders: int, folder: Path) -> Run:
    """Orders in, the driver killed and started again, what came out counted: on a cluster of its own."""
    from semel.cli import demo_orders
    from semel.cli.demo_driver import started
    from semel.engine.embedded import Cluster

    folder.mkdir()
    # Rounded up, so that the last micro-batch is the smaller one and none comes after it.
    per_micro_batch = -(-orders // MICRO_BATCHES)
    with (
        Cluster(brokers=3, topics=demo_orders.TOPICS, data=folder / "brokers") as cluster,
        closing(demo_orders.connect(cluster.bootstrap)) as client,
    ):
        demo_orders.produce_orders(client, orders)
        narrate(f"{guarantee}: {orders:,} orders in a cluster of 3 brokers; starting the pipeline's driver")
        with started(
            cluster.bootstrap,
            guarantee,
            folder,
            orders_per_micro_batch=per_micro_batch,
            stop_after=KILLED_MICRO_BATCH,
        ) as driver:
            killed = _kill_before_commit(driver)
        with started(cluster.bootstrap, guarantee, folder, orders_per_micro_batch=per_micro_batch) as driver:
            _follow(driver)
        return Run(guarantee=guarantee, killed=killed, count=demo_orders.count_effects(client, orders))


def _kill_before_commit(driver: "Driver") -> bool:
    from semel.sinks.base import CommitStep

    for number, step in driver.steps():
        if step is CommitStep.COMMITTED:
            narrate(f"  micro-batch {number} committed")
        if (number, step) == (KILLED_MICRO_BATCH, CommitStep.ROWS_WRITTEN):
            driver.kill()
            narrate(f"  micro-batch {number} written, not committed: driver killed; starting it again")
            return True
    return False


def _follow(driver: "Driver") -> None:
    from semel.sinks.base import CommitStep

    committed = sum(step is CommitStep.COMMITTED for _, step in driver.steps())
    narrate(f"  {committed} micro-batches committed from the checkpoint on; counting what came out")


def _render(runs: list[Run]) -> str:
    headings = ["guarantee", "orders in", "records out", "lost", "doubled", "verdict"]
    rows = [
        [
            str(one.guarantee),
            f"{one.count.orders_in:,}",
            f"{one.count.records_out:,}",
            f"{one.count.lost:,}",
            f"{one.count.doubled:,}",
            one.verdict.name,
        ]
        for one in runs
    ]
    return render_table(headings, rows)


def _explain(runs: list[Run]) -> None:
    """Say what the numbers mean."""
    for one in runs:
        count = one.count
        match one.guarantee, one.verdict:
            case _, ExitCode.UNKNOWN:
                narrate(f"{one.guarantee}: the driver ended before it could be killed, so nothing was shown")
            case Guarantee.AT_LEAST_ONCE, ExitCode.HELD:
                narrate(f"{one.guarantee} kept its promise, nothing is lost; {count.doubled:,} records came twice")
            case Guarantee.EXACTLY_ONCE, ExitCode.HELD:
                narrate(
                    f"{one.guarantee}: each order was paid and shipped once; {count.aborted:,} records"
                    " of the killed driver were aborted, and no read_committed reader sees them"
                )
            case _:
                narrate(f"{one.guarantee}: this should not be; {count.unexpected:,} records belong to no order")


def _count(text: str) -> int:
    count = int(text)
    if not MICRO_BATCHES <= count <= ORDERS_MAX:
        raise argparse.ArgumentTypeError(f"between {MICRO_BATCHES} and {ORDERS_MAX}")
    return count
