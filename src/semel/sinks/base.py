"""What a sink is: its settings (`Sink`), one driver's hold on its output (`SinkSession`), and the work for tasks.

Who owns what: a session owns how the ledger is stored and what a transaction is; `commit` owns the order of steps,
which is the guarantee; Spark, or what else carries out a `WritePlan`, owns the work. None looks into another.

Every session has the same functions, whatever it writes to. Kafka's tasks write into the driver's own transaction, so
only the first attempt of each may write. A sink with staging lets any attempt write, each into a place of its own; the
places that count come back as results of the tasks that Spark counts, and `prepare` takes them into the transaction.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from semel.errors import ConfigError, FencedError, OutcomeUnknownError
from semel.guarantee import Guarantee
from semel.wire.topology import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.sinks.ledger import Ledger
    from semel.sinks.recovery import Decision

# So few rows are written by one task: to start several would cost more than they save.
SMALL_ROWS_MAX = 20_000
KEPT_FOREVER = 2**63 - 1  # ms; what is not forgotten by itself
_PIPELINE = re.compile(r"[A-Za-z0-9._-]{1,200}")
RUNS_MAX = 4  # how often a driver tries a micro-batch


class CommitStep(StrEnum):
    """What has just been done; exactly once runs through all of them in this order."""

    OWNED = "owned"  # older owners are fenced, what they left open is aborted
    LEDGER_READ = "ledger-read"
    OPENED = "opened"  # the sink's transaction knows where rows will go
    ROWS_WRITTEN = "rows-written"
    OFFSETS_WRITTEN = "offsets-written"  # part of the transaction, not visible yet
    COMMITTED = "committed"


OnStep = Callable[[CommitStep], None]


def ignore_step(_: CommitStep) -> None:
    """The default of `on_step`: do nothing."""


# --- what is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a batch job."""

    id: str
    # Since when it may have been written; None when nobody said.
    planned_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """One Spark trigger's work, as a sink sees it."""

    pipeline: str
    query_id: str
    id: int
    guarantee: Guarantee
    # Where the sources stand when this micro-batch is done; None when a source has no Kafka offsets (E8).
    offsets: Mapping[TopicPartition, int] | None
    # Where they stood before; None when that is not known.
    offsets_before: Mapping[TopicPartition, int] | None = None
    # Ids of the topics that these offsets count, as far as the source has written them down.
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    topic_ids_before: Mapping[str, str] = field(default_factory=dict)
    # Digests of what Spark's offset log says of the sources, for sources without Kafka offsets.
    end_digest: str = ""
    before_digest: str | None = None
    # Whether an earlier run may have done part of it: it was planned before this process began.
    is_replay: bool = False
    # A batch job instead of a micro-batch of a query; see `run_ids`.
    run: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the rows; the type as Spark writes it: `decimal(10,2)`, `array<struct<key:string,value:binary>>`."""

    name: str
    type: str
    is_nullable: bool = True
    json: str = ""
    """The type as Spark writes it in a schema; nested names are unambiguous there."""
    made_by: str = ""
    """An expression of Spark's SQL that makes it; empty: the column is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAhead:
    """What is known of a micro-batch's rows before any of them is read."""

    columns: tuple[Column, ...]
    # How many there are at most; None when nobody can tell.
    expected: int | None
    # How many tasks can run at once.
    cores: int

    def writers(self, limit: int) -> int:
        """How many tasks write: one for a small micro-batch, else as many as there are cores, within the limit."""
        return 1 if self.is_small else max(1, min(limit, self.cores))

    @property
    def is_small(self) -> bool:
        """Whether there are known to be few."""
        return self.expected is not None and self.expected <= SMALL_ROWS_MAX


# --- what tasks do


class Task(NamedTuple):
    """Who works: the number of the task in its stage, and the attempt, by a number that no other attempt has."""

    number: int
    attempt_id: int


Batches = Iterator["pa.RecordBatch"]
StageTask = Callable[[Task, Batches], Batches]
# What the tasks of the last stage gave, a row each: only of the attempts that count.
Results = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Work for tasks, between two shuffles."""

    task: StageTask
    """Picklable: it is sent to every task."""
    gives: str
    """The columns that it gives, as Spark writes a schema; `arrow_schema` makes Arrow's of it."""
    tasks: int | None = None
    """How many tasks there are at most; None: as many as the rows come in."""
    by: str | None = None
    """In a second stage: the column of the first that says which task gets a row. None: this is the first."""


def arrow_schema(gives: str) -> pa.Schema:
    """`Stage.gives` for Arrow: Spark refuses the batches of a task that have other columns or types."""
    import pyarrow as pa  # noqa: PLC0415  (tasks have it loaded; the driver's commands need none of it)

    types: dict[str, pa.DataType] = {
        "int": pa.int32(),
        "long": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
    }
    columns = [column.split() for column in gives.split(",")]
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns])


class Attempts(Enum):
    """Which attempts of a task may write in the last stage."""

    ANY = "any"  # each writes to a place of its own, and the results say which of them count
    FIRST = "first"  # a second one fails, and with it the job
    SINGLE = "single"  # the same, and the job fails as well when Spark has run a stage of it again


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrder:
    """Rows with the same value of `key` go to one task and are sorted there by `by`, before the first stage."""

    key: str
    by: str
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """What Spark has to do for a micro-batch: one stage, or two with a shuffle between them."""

    stages: tuple[Stage, ...]
    attempts: Attempts
    order: RowOrder | None = None
    # How large the largest row is, where that is known and a run that fails can be undone; else 0.
    row_bytes_max: int = 0


# --- the driver's half


class ErrorKind(Enum):
    """What an error means for the micro-batch in which it happened."""

    FENCED = "fenced"  # a newer driver owns the pipeline: stop, never try again
    FINAL = "final"  # another run would end the same way
    AGAIN = "again"  # nothing of this run is visible, another may succeed
    UNKNOWN = "unknown"  # the commit may have happened: leave everything as it is, the ledger knows at the next start


class SinkSession(ABC):
    """One driver's hold on a pipeline's output: the functions that the orders of steps in `commit` are made of."""

    pipeline: str
    row_bytes_max: int = 0
    """How large the largest row is, by the last micro-batch or by Spark's estimate; 0 when that is not known."""

    @abstractmethod
    def own(self) -> object:
        """Become the pipeline's one driver: every earlier one is fenced, and what it left open is undone.

        Called before every run of a micro-batch. A driver that was fenced meanwhile gets a FencedError and does not
        fence its successor. What it returns tells those who look who this driver is now.
        """

    @abstractmethod
    def read_ledger(self, micro_batch: MicroBatch) -> Ledger:
        """What the output holds, as decided commits say."""

    @abstractmethod
    def decide(self, micro_batch: MicroBatch, *, is_stateful: bool, checkpoint: str) -> Decision:
        """Hold the micro-batch, or the run of a batch job, against the ledger that was just read; see `recovery`."""

    def prepare_run(self, micro_batch: MicroBatch) -> int | None:
        """Before a batch job owns anything: refuse it where it cannot be right, or where runs are not remembered.

        Gives for how long its run id is remembered, in ms; None when nobody can tell.
        """
        raise ConfigError(
            f"pipeline {micro_batch.pipeline!r}: this sink takes no batch jobs",
            because="it does not remember run ids, so a repeated job would write again",
            you_want="semel.write_stream(...)",
        )

    def take_row_bytes_max(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> int:
        """What is known of the rows' size, for the plan of this run; 0 where it does not help, or must not be used.

        It counts for one run: after a failure it is forgotten, since rows may have been larger. So it is of no use
        where a run that fails cannot be undone, nor where there are few rows.
        """
        known, self.row_bytes_max = self.row_bytes_max, 0
        is_undone_by_abort = micro_batch.guarantee is Guarantee.EXACTLY_ONCE
        return known if run == 1 and is_undone_by_abort and not rows.is_small else 0

    def begin(self) -> None:  # noqa: B027 - a sink may as well begin when rows are prepared
        """Open the transaction that rows and ledger go into. Without it rows are visible once they are prepared."""

    @abstractmethod
    def plan_write(self, micro_batch: MicroBatch, rows: RowsAhead, *, run: int) -> WritePlan:
        """Say how the rows are written; `run` counts from 1 how often this driver has tried.

        At most once calls it before the ledger is written, so what can go wrong in it does so before.
        """

    @abstractmethod
    def prepare(self, results: Results) -> int:
        """Check what the tasks reported, and take it into the transaction; gives how many rows there are (E2)."""

    @abstractmethod
    def write_ledger(self, micro_batch: MicroBatch) -> None:
        """Make the ledger's entry part of the transaction; it is not visible yet."""

    @abstractmethod
    def commit(self) -> None:
        """Make rows and entry visible, together; OutcomeUnknownError when nobody can tell whether that happened."""

    @abstractmethod
    def abort(self) -> None:
        """Undo what is open; when a newer owner or a timeout has done so already, that is as good."""

    def commit_ledger(self, micro_batch: MicroBatch) -> None:
        """Write the ledger's entry by itself: for at least once, which may repeat rows."""
        self.write_ledger(micro_batch)
        self.commit()

    final: tuple[type[Exception], ...] = (ConfigError,)
    """Errors after which another run would end the same way."""

    def classify(self, error: Exception) -> ErrorKind:
        """What an error means: by its class, or by the name of its class in the text that Spark hands on."""
        if isinstance(error, OutcomeUnknownError):
            return ErrorKind.UNKNOWN
        # Spark hands on an error of a task as text, so its class is looked for there by name.
        if isinstance(error, FencedError) or FencedError.__name__ in str(error):
            return ErrorKind.FENCED
        is_final = isinstance(error, self.final) or any(one.__name__ in str(error) for one in self.final)
        return ErrorKind.FINAL if is_final else ErrorKind.AGAIN

    def explain(self, error: Exception, micro_batch: MicroBatch, *, kind: ErrorKind, is_last_run: bool) -> Exception:  # noqa: ARG002
        """The error to raise when there is no other run: this one, or one that says more."""
        return error

    def let_go(self) -> None:  # noqa: B027 - most sinks have nothing that others wait for
        """Release, after the query has ended, what the next driver would have to wait for."""


class StagedSession(SinkSession):
    """A session whose tasks write to places that count for nothing until they are named.

    So tasks may work before anybody owns the pipeline, in a job that this driver did not start: Spark's own writers
    learn only afterwards which micro-batch it was. All that the tasks of one job leave has one name.
    """

    @abstractmethod
    def staging_task(self, columns: Sequence[Column], staging: str) -> StageTask:
        """The work of tasks that stage such rows under this name; rows that the output cannot take are refused."""

    @abstractmethod
    def expect(self, staging: str) -> None:
        """Say what was staged before this driver came: `own` leaves it."""

    @abstractmethod
    def drop(self, staging: str) -> None:
        """Remove what was staged under this name, as far as it is no part of the output."""


_Choice = TypeVar("_Choice", bound=StrEnum)


def chosen(kind: type[_Choice], name: str, given: str) -> _Choice:
    """What was given for a setting that has a few names to choose from."""
    try:
        return kind(given)
    except ValueError:
        raise ConfigError(f"{name}={given!r} is unknown", you_want=" | ".join(kind)) from None


def setting_words(sink: str, values: Mapping[str, object], *, by_option: bool) -> str:
    """Settings of a sink as its user writes them: arguments of its class, or options of its format."""
    if by_option:
        return "".join(f'.option("{name}", "{_option_text(value)}")' for name, value in values.items())
    return f"{sink}(..., {', '.join(f'{name}={_argument_text(value)}' for name, value in values.items())})"


def _argument_text(value: object) -> str:
    return repr(value) if isinstance(value, bool) else json.dumps(value, ensure_ascii=False)


def _option_text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        names = [str(one) for one in value]
        has_commas = any("," in name for name in names)
        return json.dumps(names, ensure_ascii=False).replace('"', '\\"') if has_commas else ",".join(names)
    return str(value)


def check_pipeline_name(pipeline: str) -> None:
    """Refuse a name that is hard to type, or that could be the group of a batch job's run."""
    if not _PIPELINE.fullmatch(pipeline):
        raise ConfigError(
            f"{pipeline!r} cannot name a pipeline", you_want="up to 200 letters, digits, dots, dashes and underscores"
        )


class Sink(ABC):
    """Where rows go and how they get there: settings, and nothing that is connected."""

    order_by: str | None
    """The column that the rows of a key are sorted by; None: they come as they are."""
    by_option: ClassVar[bool] = False
    """Whether its user gives settings as options of a format; texts for the user speak so."""

    def words(self, **settings: object) -> str:
        """Settings of this sink as its user writes them."""
        return setting_words(type(self).__name__, settings, by_option=self.by_option)

    @property
    @abstractmethod
    def place(self) -> object:
        """Where the output is, for telling two sinks of one process apart; hashable."""

    @abstractmethod
    def check_columns(self, columns: Sequence[Column]) -> tuple[Column, ...]:
        """Refuse rows that do not fit, before anything runs; gives the columns that tasks are handed, in order."""

    @abstractmethod
    def open(self, pipeline: str, is_called_off: Callable[[], bool] = lambda: False) -> SinkSession:
        """Connect as the pipeline's driver; nobody is fenced yet.

        `is_called_off` says whether nobody waits for this driver any more: then it does not wait long for the sink.
        """
