"""Run ids of batch jobs: what a user may give, and how a ledger names a run in place of a query.

Keeps: E19 of docs/DESIGN.md, with the half of each sink.
"""

from __future__ import annotations

import unicodedata
from datetime import datetime
from hashlib import sha256

from semel.errors import ConfigError
from semel.sinks.base import MicroBatch, Run
from semel.sinks.ledger import Entry

RUN_ID_CHARS_MAX = 500
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000
# How far the clocks of brokers, driver and scheduler may be apart.
CLOCKS_APART_MS_MAX = 5 * MINUTE_MS
QUERY_PREFIX = "batch:"


# --- what the user gave


def checked_run(run_id: object, planned_at: object, now_ms: int) -> Run:
    """Read what `write_batch` was given; ConfigError before anything runs."""
    return Run(id=_checked_id(run_id), planned_ms=None if planned_at is None else _checked_time(planned_at, now_ms))


def _checked_id(run_id: object) -> str:
    because = "the run id is what keeps a repeated run from writing, so two that look alike must be one"
    if not isinstance(run_id, str) or not run_id:
        raise ConfigError(f"run_id={run_id!r} is not a text with at least one character", because=because)
    if len(run_id) > RUN_ID_CHARS_MAX:
        raise ConfigError(
            f"run_id has {len(run_id)} characters, at most {RUN_ID_CHARS_MAX} are allowed",
            you_wrote=f"run_id={run_id[:40]!r}…",
            you_want="a short name of the run, as the scheduler's; or a hash of the long one",
        )
    if not run_id.isprintable() or run_id != run_id.strip() or not unicodedata.is_normalized("NFC", run_id):
        raise ConfigError(
            f"run_id={run_id!r} has characters that cannot be seen",
            because=because,
            you_want="no line breaks or control characters, no blanks at either end, composed letters "
            '(unicodedata.normalize("NFC", run_id))',
        )
    return run_id


def _checked_time(planned_at: object, now_ms: int) -> int:
    if not isinstance(planned_at, datetime) or planned_at.tzinfo is None:
        raise ConfigError(
            f"planned_at={planned_at!r} is not a datetime with a time zone",
            you_want="datetime(2026, 3, 1, tzinfo=timezone.utc), or the data_interval_end of an Airflow run",
        )
    planned_ms = int(planned_at.timestamp() * 1000)
    if planned_ms > now_ms + CLOCKS_APART_MS_MAX:
        raise ConfigError(
            f"planned_at={planned_at.isoformat()} lies in the future",
            because="it says since when the run may have been written, which decides whether it may be forgotten",
            you_want="the time for which the run was planned; if that is past, correct this machine's clock",
        )
    return planned_ms


# --- what is kept


def run_hash(run_id: str) -> str:
    """The run id in group names and query ids: of one length, whatever characters it has."""
    return sha256(run_id.encode()).hexdigest()


def run_query_id(run: Run) -> str:
    """What a batch job writes into the pipeline's ledger in place of a query."""
    return QUERY_PREFIX + run_hash(run.id)


# --- what is refused, and what is run


def check_kind(last: Entry | None, micro_batch: MicroBatch) -> None:
    """Refuse a batch job in a query's pipeline and the other way round.

    Why: each would fence the other, and a query that finds a batch job's entry as the newest cannot tell whether its
    last micro-batch was committed.
    """
    if last is None or last.query_id.startswith(QUERY_PREFIX) == (micro_batch.run is not None):
        return
    mine, other = ("a batch job", "a streaming query") if micro_batch.run else ("a streaming query", "a batch job")
    raise ConfigError(
        f"pipeline {micro_batch.pipeline!r} was last written by {other}, this is {mine}",
        because="both would own one transactional id and one ledger: each would stop the other, and a repeated "
        "micro-batch could not be told from a new one",
        you_want=f"another pipeline name for {mine}; it may write to the same output",
    )


def written_elsewhere(
    micro_batch: MicroBatch,
    there: str,
    here: str,
    *,
    you_want: str = "another pipeline name for this sink, or another run_id",
    or_else: str = "",
    next_command: str = "",
) -> ConfigError:
    """Why a run that was written to another output is neither skipped nor run."""
    assert micro_batch.run is not None
    return ConfigError(
        f"run {micro_batch.run.id!r} of pipeline {micro_batch.pipeline!r} was written to {there}, and this sink writes "
        f"to {here}",
        because="a run id is remembered for the whole pipeline: skipped, the run would be missing here; run, it could "
        "be written twice",
        you_want=you_want + or_else,
        next_command=next_command,
    )


def duration(ms: int | None) -> str:
    """A time in words: in the largest unit that has at least two."""
    if ms is None:
        return "an unknown time"
    for size, name in ((DAY_MS, "days"), (HOUR_MS, "hours")):
        if ms >= 2 * size:
            return f"{ms // size} {name}"
    minutes = ms // MINUTE_MS
    return "1 minute" if minutes == 1 else f"{minutes} minutes"
