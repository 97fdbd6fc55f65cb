"""Sequences of operators' acts, drawn from a seed, with kills between: every start is right, or refused with a way out.

A seed that fails repeats with `pytest tests/spark/recovery/test_random_acts.py -k "seed-17]"`; it prints what was done.
"""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import semel
from semel.sinks.base import CommitStep
from tests.spark.recovery.operated import Operated

ACTS_PER_SEQUENCE = 3
WAYS_OUT_MAX = 4
SEEDS, SEEDS_FULL, SEEDS_QUICK = 200, 12, 10
REFUSALS = ("semel pipeline status", "failOnDataLoss", "the checkpoint")


class Operator:
    """Draws acts, starts the pipeline after each, follows what refusals say, and counts."""

    def __init__(self, pipeline: Operated, seed: int) -> None:
        self.pipeline = pipeline
        self.draw = random.Random(seed)
        self.done: list[str] = []
        self.acts: list[Callable[[], None]] = [
            self.go_on,
            self.kill,
            self.back_up,
            self.restore,
            self.lose_checkpoint,
            self.add_partition,
            self.recreate_source,
            self.delete_ledger,
            self.unfinish,
            self.second_driver,
            self.change_options,
        ]

    def play(self) -> None:
        """Live, act, start, count, several times over."""
        self.pipeline.live(20, 20)
        for _ in range(ACTS_PER_SEQUENCE):
            act = self.draw.choice(self.acts)
            self.done.append(act.__name__)
            act()
            if self.draw.random() < 0.7:
                self.pipeline.send(self.draw.randint(1, 20))
            self.start()
            self.pipeline.check()

    def start(self) -> None:
        """Start until it goes; a refusal writes nothing, and names what to do."""
        for _ in range(WAYS_OUT_MAX):
            before = self.pipeline.output_size()
            failure = self.pipeline.job.run()
            if failure is None:
                return
            self.done.append(f"refused: {failure.partition('semel.')[2][:160]}")
            assert any(word in failure for word in REFUSALS), f"{self.done}\n{failure}"
            if "failOnDataLoss" not in failure:
                assert self.pipeline.output_size() == before, self.done
            self.pipeline.follow_any(failure)
        raise AssertionError(f"no way out: {self.done}")

    # --- acts

    def go_on(self) -> None:
        """Nothing at all."""

    def kill(self) -> None:
        steps = [CommitStep.OWNED, CommitStep.OPENED, CommitStep.ROWS_WRITTEN, CommitStep.COMMITTED]
        self.pipeline.send(5)
        self.pipeline.die(self.draw.choice(steps))

    def back_up(self) -> None:
        self.pipeline.back_up(str(len(self.pipeline.backups)))

    def restore(self) -> None:
        if self.pipeline.backups:
            self.pipeline.restore(self.draw.choice(sorted(self.pipeline.backups)))

    def lose_checkpoint(self) -> None:
        starts = ["earliest", "latest", "ledger"]
        if self.pipeline.job.format == "kafka":
            starts.remove("ledger")  # which Spark's own source does not know
        self.pipeline.lose_checkpoint(self.draw.choice(starts))

    def add_partition(self) -> None:
        self.pipeline.add_partition()

    def recreate_source(self) -> None:
        """All of it was read: the last start went through."""
        self.pipeline.recreate_source()

    def delete_ledger(self) -> None:
        self.pipeline.delete_ledger()

    def unfinish(self) -> None:
        self.pipeline.unfinish()

    def second_driver(self) -> None:
        self.pipeline.second_driver()

    def change_options(self) -> None:
        self.pipeline.job.per_trigger = self.draw.choice([None, 7, 50])
        if self.draw.random() < 0.5:
            self.pipeline.know_pipeline()


class Meddler(Operator):
    """Draws also what is done by hand: folders that change places, and Kafka's own tools."""

    def __init__(self, pipeline: Operated, seed: int) -> None:
        super().__init__(pipeline, seed)
        self.acts = [
            self.kill,
            self.back_up,
            self.restore,
            self.lose_checkpoint,
            self.swap_checkpoint,
            self.delete_entries,
            self.recreate_source,
            self.recreate_output,
            self.change_options,
        ]

    def swap_checkpoint(self) -> None:
        """With another pipeline's, as a whole or without the file that names it; one of the two may be ahead."""
        whole = ["offsets", "commits", "metadata", "state", "sources", "semel-pipeline"]
        is_ahead = self.draw.random() < 0.5
        if is_ahead:
            self.pipeline.send(5)
        self.pipeline.swap_checkpoint(self.draw.choice([whole, whole[:-1]]))
        if is_ahead:  # a start that has nothing to do looks at nothing
            self.pipeline.send(5)

    def delete_entries(self) -> None:
        self.pipeline.delete_entries()

    def recreate_output(self) -> None:
        """Only a start that has something to do looks at its output."""
        self.pipeline.recreate_output()
        self.pipeline.send(5)


def run_seed(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seed: int, by: type[Operator] = Operator
) -> None:
    """Play one sequence, and say what was done if it fails."""
    pipeline = Operated.new(
        spark,
        cluster.bootstrap,
        tmp_path,
        format_="kafka" if seed % 5 == 4 else "semel",
        is_stateful=seed % 3 == 2,
    )
    operator = by(pipeline, seed)
    try:
        operator.play()
    finally:
        print(f"seed {seed}: {operator.done}")  # noqa: T201  (pytest shows it when the test fails)


@pytest.mark.quick(SEEDS_QUICK)
@pytest.mark.parametrize("seed", range(SEEDS_FULL), ids=lambda seed: f"seed-{seed}")
def test_every_start_is_right_or_refused(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seed: int
) -> None:
    run_seed(spark, cluster, tmp_path, seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(SEEDS_FULL, SEEDS), ids=lambda seed: f"seed-{seed}")
def test_many_more_sequences(spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seed: int) -> None:
    run_seed(spark, cluster, tmp_path, seed, by=Meddler if seed % 2 else Operator)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(SEEDS_FULL), ids=lambda seed: f"seed-{seed}")
def test_every_start_is_right_or_refused_whoever_meddles(
    spark: SparkSession, cluster: semel.Cluster, tmp_path: Path, seed: int
) -> None:
    run_seed(spark, cluster, tmp_path, seed, by=Meddler)
