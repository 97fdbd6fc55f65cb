"""A pipeline and what operators do to it: back-ups, lost folders, deleted groups, new partitions, recreated topics.

`follow` does what an error says, word for word, and nothing else.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from semel.sinks.base import CommitStep
from semel.wire.topology import TopicPartition as Place
from tests.spark.sink_jobs import CLIENT_S_MAX, KEYS, Job, KillAfter, check_once, fill, new_topics, number_of
from tests.support.group_offsets import delete_offsets, reset_offsets
from tests.support.recreating import recreate_topic
from tests.support.waiting import eventually

PARTITIONS = 3
_numbers = count()


def counts(rows: DataFrame) -> DataFrame:
    """How often each key came: wrong as soon as state is lost, repeated or left behind."""
    return rows.groupBy("key").count().selectExpr("key", "cast(count as string) value")


@dataclass(slots=True, kw_only=True)
class Operated:
    """A pipeline over numbered records, with an operator."""

    job: Job
    folder: Path
    admin: AdminClient
    is_stateful: bool = False
    # What the output should hold, and what of it the source topic still has.
    sent: list[int] = field(default_factory=list)
    in_topic: list[int] = field(default_factory=list)
    sent_to: dict[int, int] = field(default_factory=dict)
    next_number: int = 0
    partitions: int = PARTITIONS
    backups: dict[str, Path] = field(default_factory=dict)

    @classmethod
    def new(cls, spark: SparkSession, bootstrap: str, folder: Path, *, format_: str, is_stateful: bool) -> Operated:
        source, output = new_topics(bootstrap, PARTITIONS, PARTITIONS)
        job = Job(
            spark=spark,
            bootstrap=bootstrap,
            source=source,
            outputs=(output,),
            checkpoint=str(folder / "checkpoint"),
            format=format_,
            output_mode="update" if is_stateful else "append",
        )
        if is_stateful:
            job.shape = counts
        admin = AdminClient({"bootstrap.servers": bootstrap})
        return cls(job=job, folder=folder, admin=admin, is_stateful=is_stateful)

    # --- ordinary life

    def send(self, how_many: int) -> None:
        """More input, in every partition."""
        numbers = range(self.next_number, self.next_number + how_many)
        self.next_number += how_many
        fill(self.job.bootstrap, self.job.source, numbers, partitions=self.partitions)
        self.sent.extend(numbers)
        self.sent_to |= {number: number % KEYS % self.partitions for number in numbers}
        self.in_topic.extend(numbers)

    def send_to_newest(self, how_many: int) -> None:
        """More input, in the partition that was added last alone."""
        numbers = range(self.next_number, self.next_number + how_many)
        self.next_number += how_many
        newest = self.partitions - 1
        client = Producer({"bootstrap.servers": self.job.bootstrap, "linger.ms": 0})
        for number in numbers:
            client.produce(self.job.source, key=b"key %d" % (number % KEYS), value=b"%d" % number, partition=newest)
        assert client.flush(CLIENT_S_MAX) == 0
        self.sent.extend(numbers)
        self.sent_to |= dict.fromkeys(numbers, newest)
        self.in_topic.extend(numbers)

    def live(self, *batches: int) -> None:
        """Send and finish, once for each; the checkpoint is backed up before each, by number."""
        for number, how_many in enumerate(batches):
            if Path(self.job.checkpoint).exists():
                self.back_up(str(number))
            self.send(how_many)
            self.job.finish()

    def kill(self, step: CommitStep) -> None:
        """Send more, and die in the middle of writing it."""
        self.send(20)
        self.die(step)

    def die(self, step: CommitStep) -> None:
        """Start, and die after a step of the first micro-batch."""
        assert "Killed" in (self.job.run(KillAfter(step)) or "")

    # --- the operator's acts

    def back_up(self, name: str) -> None:
        self.backups[name] = self.folder / f"backup-{next(_numbers)}"
        shutil.copytree(self.job.checkpoint, self.backups[name])

    def restore(self, name: str) -> None:
        shutil.rmtree(self.job.checkpoint)
        shutil.copytree(self.backups[name], self.job.checkpoint)

    def swap_checkpoint(self, names: Iterable[str]) -> None:
        """Give this pipeline the checkpoint of another one over the same topic, or these parts of it."""
        other = replace(
            self.job,
            pipeline=f"other-{next(_numbers)}",
            outputs=(self.new_output(),),
            checkpoint=str(self.folder / f"other-{next(_numbers)}"),
            source_options={"startingOffsets": "earliest"},
            sink_options={},
        )
        other.finish()
        for name in names:
            mine, others = Path(self.job.checkpoint) / name, Path(other.checkpoint) / name
            if mine.exists() and others.exists():
                shutil.rmtree(mine) if mine.is_dir() else mine.unlink()
                shutil.move(others, mine)

    def roll_back_to_nothing(self) -> None:
        """Keep the query's identity and nothing else."""
        for name in ("offsets", "commits", "state", "sources"):
            shutil.rmtree(Path(self.job.checkpoint) / name, ignore_errors=True)

    def lose_checkpoint(self, starting: str = "earliest") -> None:
        shutil.rmtree(self.job.checkpoint)
        self.job.source_options["startingOffsets"] = starting
        if starting == "ledger":
            self.job.source_options["ledger"] = self.job.pipeline

    def know_pipeline(self) -> None:
        self.job.source_options["ledger"] = self.job.pipeline

    def delete_ledger(self) -> None:
        for future in self.admin.delete_consumer_groups([self.job.pipeline]).values():
            try:
                future.result(CLIENT_S_MAX)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.GROUP_ID_NOT_FOUND:  # deleted before, and not written since
                    raise

    def delete_entries(self) -> None:
        """Kafka's own tool deletes what the group has committed for the source topic, and leaves the rest."""
        delete_offsets(self.job.bootstrap, self.job.pipeline, self._places())

    def reset_entries(self) -> None:
        """Kafka's own tool sets the group's offsets of the source topic to its beginning: "reprocess all"."""
        reset_offsets(self.job.bootstrap, self.job.pipeline, self._places(), 0)

    def _places(self) -> list[Place]:
        return [Place(self.job.source, number) for number in range(self.partitions)]

    def add_partition(self) -> None:
        self.partitions += 1
        for future in self.admin.create_partitions([NewPartitions(self.job.source, self.partitions)]).values():
            future.result(CLIENT_S_MAX)
        eventually(
            lambda: len(self.admin.list_topics(self.job.source).topics[self.job.source].partitions) == self.partitions,
            CLIENT_S_MAX,
            what="the new partition is known",
        )

    def recreate_source(self) -> None:
        recreate_topic(self.job.bootstrap, self.job.source, self.partitions)
        self.in_topic = []

    def recreate_output(self) -> None:
        recreate_topic(self.job.bootstrap, self.job.outputs[0], self.partitions)

    def expire_source(self) -> None:
        """Retention removes all that was sent so far."""
        ends = {
            place: self._end(place) for place in (TopicPartition(self.job.source, n) for n in range(self.partitions))
        }
        for place, end in ends.items():
            place.offset = end
        for future in self.admin.delete_records(list(ends)).values():
            future.result(CLIENT_S_MAX)

    def _end(self, place: TopicPartition) -> int:
        client = Consumer({"bootstrap.servers": self.job.bootstrap, "group.id": "outside"})
        try:
            return int(client.get_watermark_offsets(place, timeout=CLIENT_S_MAX)[1])
        finally:
            client.close()

    def second_driver(self) -> None:
        """Somebody starts the pipeline elsewhere, from its ledger, and lets it finish, or is refused."""
        kept = self.job.checkpoint, dict(self.job.source_options), self.job.format
        self.job.checkpoint = str(self.folder / f"second-{next(_numbers)}")
        self.job.source_options |= {"startingOffsets": "ledger", "ledger": self.job.pipeline}
        self.job.format = "semel"
        before = self.output_size()
        failure = self.job.run()
        if failure is not None:  # without its state, or without a ledger
            assert "semel pipeline status" in failure, failure
            assert self.output_size() == before
        self.job.checkpoint, self.job.source_options, self.job.format = kept

    def new_output(self) -> str:
        (topic,) = new_topics(self.job.bootstrap, PARTITIONS)
        return topic

    def unfinish(self) -> None:
        """What a driver leaves that dies after its commit and before Spark's commit log."""
        last = max((Path(self.job.checkpoint) / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
        last.unlink()
        last.with_name(f".{last.name}.crc").unlink(missing_ok=True)

    # --- following an error

    def follow(self, error: str, clause: str) -> None:
        """Do what one clause of the error says; it must be there."""
        assert clause in error, f"{clause!r} is not said: {error[-1500:]}"
        if "a new checkpoint folder" in clause or clause.startswith("and, on a source"):
            self.job.checkpoint = str(self.folder / f"checkpoint-{next(_numbers)}")
        if 'on a source of format "semel"' in clause:
            self.job.format = "semel"
        for name, value in re.findall(r'\.option\("(\w+)", "([^"]+)"\)', clause):
            self.job.source_options[name] = value
        for name, value in re.findall(r'KafkaSink\(\.\.\., (\w+)="(\w+)"\)', clause):
            self.job.sink_options[name] = value
        if "another pipeline name" in clause:
            self.job.pipeline = f"another-{next(_numbers)}"
            self.job.source_options.pop("ledger", None)
        if "a new output topic" in clause:
            self.job.outputs = (self.new_output(),)
            self.sent = list(self.in_topic)
        if 'startingOffsets="earliest"' in clause:
            self.job.source_options["startingOffsets"] = "earliest"
            self.job.source_options.pop("ledger", None)

    def follow_any(self, error: str) -> None:
        """Do what the error says, whichever way out it names."""
        named = f'.option("ledger", "{self.job.pipeline}")'
        clauses = (
            r"compute everything again: .*?startingOffsets=\"earliest\"",
            rf"and, on a source of format \"semel\", .*?{re.escape(named)}",
            r"\.option\(\"failOnDataLoss\", \"false\"\)",
            r"a new checkpoint folder for pipeline '[^']+'",
        )
        if "set the source option failOnDataLoss to false" in error:
            self.job.source_options["failOnDataLoss"] = "false"  # the words of Spark's own source
            return
        found = [match for clause in clauses if (match := re.search(clause, error)) is not None]
        assert found, f"no way out is named: {error[-1500:]}"
        self.follow(error, found[0].group())

    # --- the independent reader

    def check(self, numbers: Iterable[int] | None = None) -> None:
        """Every number once; or, of counts, each once and rising to the right one."""
        wanted = self.sent if numbers is None else list(numbers)
        if not self.is_stateful:
            check_once(self.job.output(), wanted, ordered=True, sent_to=self.sent_to)
            return
        seen: dict[bytes | None, list[int]] = defaultdict(list)
        for one in sorted(self.job.output(), key=lambda one: one.offset):
            seen[one.key].append(number_of(one))
        for key, values in seen.items():
            assert values == sorted(set(values)), (key, values)
        last = {key: values[-1] for key, values in seen.items()}
        assert last == Counter(b"key %d" % (one % KEYS) for one in wanted)

    def check_counted_anew(self, state_lost_at: int) -> None:
        """Counts that rise to what was sent before the state was lost, and then from nothing to what came after it."""
        seen: dict[bytes | None, list[list[int]]] = defaultdict(list)
        for one in sorted(self.job.output(), key=lambda one: one.offset):
            runs = seen[one.key]
            if runs and runs[-1][-1] < number_of(one):
                runs[-1].append(number_of(one))
            else:
                runs.append([number_of(one)])
        parts = (self.sent[:state_lost_at], self.sent[state_lost_at:])
        before, after = (Counter(b"key %d" % (one % KEYS) for one in part) for part in parts)
        assert {key: [run[-1] for run in runs] for key, runs in seen.items()} == {
            key: [before[key], after[key]] for key in before | after
        }

    def check_numbers(self) -> None:
        """Every number as often as it should be there, in any order: some were asked for again."""
        check_once(self.job.output(), self.sent, ordered=False)

    def output_size(self) -> int:
        return len(self.job.output())
