"""The options of `format("semel-postgres")` and `format("semel-delta")`: the arguments of the sinks, as Spark has them.

A name is that of the Python argument, in any case; a list is written with commas, or as JSON where a name has one.
Beside them stand `pipeline` and, for a stream, `guarantee` and Spark's own `checkpointLocation`; for a batch job
`run_id`.

Keeps: no option is accepted and ignored in silence; the texts of `dsn` and `storage_options`, which may hold secrets,
       are in no error.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.guarantee import Guarantee
from semel.sinks.base import check_pipeline_name
from semel.sinks.delta.sink import DeltaSink
from semel.sinks.postgres.sink import DAYS_MAX, PostgresSink
from semel.sinks.recovery import LedgerMissing, LostState
from semel.spark.option_values import truth, whole_number, wrong

StagedSink = PostgresSink | DeltaSink
Options = Mapping[str, str]

CHECKPOINT = "checkpointLocation"
_OF_ALL = ("pipeline", "guarantee", "ledger_missing", "lost_state")
# Spark hands the query's name over as an option, where there is one.
_OF_STREAMS, _OF_BATCHES = (CHECKPOINT, "queryName"), ("run_id",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format: its name, the options that only it has, and the sink that they make."""

    name: str
    options: tuple[str, ...]
    make: Callable[[Options], StagedSink]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Everything the options say; picklable, since Spark carries writers about."""

    sink: StagedSink
    pipeline: str
    guarantee: Guarantee
    checkpoint: str = ""
    """Of a stream."""
    run_id: str = ""
    """Of a batch job."""


def parse_options(given: Options, kind: Format, *, streaming: bool) -> WriteOptions:
    """Read the options of a stream or of a batch job; ConfigError for what is missing, unknown or wrong."""
    options = {name.lower(): value for name, value in given.items()}
    _check_names(options, kind, streaming=streaming)
    pipeline = _needed(options, "pipeline", "orders", "the name is that of the ledger, which says what was written")
    check_pipeline_name(pipeline)
    guarantee, checkpoint, run_id = Guarantee.EXACTLY_ONCE.value, "", ""
    if streaming:
        guarantee = _needed(options, "guarantee", Guarantee.EXACTLY_ONCE, "a stream declares what it promises")
        checkpoint = _needed(
            options,
            CHECKPOINT,
            "/data/checkpoints/orders",
            "a micro-batch's offsets are read from there, and Spark does not say where its own default is",
        )
    else:
        run_id = _needed(options, "run_id", "2026-03-01", "a job that is repeated under the same id writes nothing")
    if options.get("ledger_missing") == LedgerMissing.SKIP:
        raise wrong(
            "ledger_missing",
            LedgerMissing.SKIP,
            f"{LedgerMissing.STOP} | {LedgerMissing.RUN}; or semel.write_stream(…) for that one start",
            because="Spark does not tell a data source whether a micro-batch was begun before",
        )
    return WriteOptions(
        sink=kind.make(options),
        pipeline=pipeline,
        guarantee=Guarantee.parse(options.get("guarantee", guarantee)),
        checkpoint=checkpoint,
        run_id=run_id,
    )


def _check_names(options: Options, kind: Format, *, streaming: bool) -> None:
    """Why lower case in errors: Spark hands the names over so, and what the user wrote is not to be had any more."""
    mine, others = (_OF_STREAMS, _OF_BATCHES) if streaming else (_OF_BATCHES, _OF_STREAMS)
    known = {name.lower(): name for name in (*_OF_ALL, *kind.options, *mine)}
    for name in options:
        if name in known:
            continue
        if name in {one.lower() for one in others}:
            job = "a stream" if streaming else "a batch job"
            raise ConfigError(f"option {name!r} is not for {job} of format {kind.name!r}", you_want="leave it out")
        close = difflib.get_close_matches(name, known, n=1)
        want = known[close[0]] if close else f"one of {', '.join(known.values())}"
        raise ConfigError(f"format {kind.name!r} has no option {name!r}", you_want=want)


def _needed(options: Options, name: str, example: str, because: str) -> str:
    found = options.get(name.lower(), "")
    if not found:
        raise ConfigError(f"option {name!r} is missing", you_want=f'.option("{name}", "{example}")', because=because)
    return found


def _names(options: Options, name: str) -> tuple[str, ...]:
    """A list of columns."""
    text = options.get(name, "").strip()
    if not text.startswith("["):
        return tuple(one.strip() for one in text.split(",") if one.strip())
    try:
        found = json.loads(text)
    except ValueError:
        raise wrong(name, text, 'id,day or ["id", "day"]', because="it is not JSON") from None
    if not all(isinstance(one, str) for one in found):
        raise wrong(name, text, '["id", "day"]')
    return tuple(found)


def _texts(options: Options, name: str) -> dict[str, str]:
    """An object of JSON that has texts alone; what was given is not shown, since it may hold secrets."""
    try:
        found = json.loads(options.get(name) or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise ConfigError(
            f"option {name!r} is no object of JSON with texts", you_want='{"AWS_REGION": "eu-central-1", …}'
        )
    return found


class PostgresOptions(PostgresSink):
    """The sink, which speaks of its settings as options."""

    by_option = True


class DeltaOptions(DeltaSink):
    """The sink, which speaks of its settings as options."""

    by_option = True


def _postgres_sink(options: Options) -> PostgresSink:
    return PostgresOptions(
        _needed(options, "dsn", "host=… dbname=… user=…", "it says where the database is"),
        _needed(options, "table", "orders", "it says where rows go"),
        mode=options.get("mode", "append"),
        key=_names(options, "key"),
        order_by=options.get("order_by"),
        delete_by=options.get("delete_by"),
        create_table=truth(options, "create_table", False),
        commits_kept_days=whole_number(options, "commits_kept_days", least=1, most=DAYS_MAX),
        ledger_missing=options.get("ledger_missing", LedgerMissing.STOP),
        lost_state=options.get("lost_state", LostState.STOP),
    )


def _delta_sink(options: Options) -> DeltaSink:
    return DeltaOptions(
        _needed(options, "path", "/data/orders", "it says where the table is"),
        partition_by=_names(options, "partition_by"),
        merge_schema=truth(options, "merge_schema", False),
        storage_options=_texts(options, "storage_options"),
        ledger_missing=options.get("ledger_missing", LedgerMissing.STOP),
        lost_state=options.get("lost_state", LostState.STOP),
    )


POSTGRES = Format(
    name="semel-postgres",
    options=("dsn", "table", "mode", "key", "order_by", "delete_by", "create_table", "commits_kept_days"),
    make=_postgres_sink,
)
DELTA = Format(
    name="semel-delta", options=("path", "partition_by", "merge_schema", "storage_options"), make=_delta_sink
)
