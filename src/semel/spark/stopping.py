"""Makes the one error that Spark sees when a micro-batch fails: short, and recognisable when the query was stopped.

Spark hears of an error in this function by its text alone: Python's traceback, with those of all errors before it. When
somebody has called `query.stop()`, Spark looks in that text for its own interruption, with a regular expression that
begins with `LOOKED_FOR` and takes some of the thread's stack for each character behind it. The text of one failed call
is long enough to end the thread with a StackOverflowError; a text without an interruption makes the stop a failure. So
what leaves is another error: for a stopped query one that says what Spark looks for and little else, for any other the
whole message, without the errors before it and never with those words. The log of `semel.spark` has those errors at
level INFO.
"""

from __future__ import annotations

import copy
import logging
import re
from typing import Any, assert_never

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from semel.errors import Outcome, SemelError, SinkError
from semel.guarantee import Guarantee

log = logging.getLogger("semel.spark")

QUERY_ID = "sql.streaming.queryId"
LOOKED_FOR = "py4j.protocol.Py4JJavaError: An error occurred while calling"
# Far below what the regular expression survives on the default stack of a JVM's thread.
TEXT_MAX = 4_000
HEAD_MAX = 1_000
_CUT = "\n[...]\n"
_JAVA_FRAMES = re.compile(r"^\s+(at [\w$.]+[/(.].*|\.\.\. \d+ more)\n?", re.MULTILINE)
# Behind it Spark repeats what it has said before.
_DRIVER_FRAMES = "Driver stacktrace:"
# What Spark says when a worker's process is gone. With a class of Java's: clients in tasks speak of sockets as well.
_WORKER_DIED = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "java.io.EOFException",
    "java.io.IOException: Broken pipe",
    "java.net.SocketException: Broken pipe",
    "java.net.SocketException: Connection reset",
)


class QueryStoppedError(SinkError):
    """The query was stopped in the middle of a micro-batch; Spark takes this for the interruption that it is.

    Nothing has to be done: the next start from the same checkpoint settles this micro-batch.
    """


def running_query(rows: DataFrame) -> Any | None:
    """Spark's own object of the query that is running a micro-batch in this thread; None when there is no query."""
    spark = rows.sparkSession
    query_id = spark.sparkContext.getLocalProperty(QUERY_ID)
    if not query_id:
        return None
    # A micro-batch has a session of its own, which does not list its query; what all sessions share does.
    jvm: Any = spark._jvm
    shared: Any = spark._jsparkSession.sharedState()
    return shared.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))


def is_stopped(rows: DataFrame) -> bool:
    """Whether somebody has stopped the query of this micro-batch; not so when Spark cannot be asked any more."""
    try:
        execution = running_query(rows)
        return execution is not None and not execution.isActive()
    except (Py4JError, OSError):
        return False


def leaving_error(error: Exception, *, stopped: bool, micro_batch: str, guarantee: Guarantee) -> Exception:
    """The error to raise in place of this one, with `from None`."""
    log.info("%s %s", micro_batch, "was stopped" if stopped else "failed", exc_info=error)
    if stopped:
        return QueryStoppedError(
            f"{micro_batch} was stopped with its query; the next start from the same checkpoint goes on with it",
            outcome=error.outcome if isinstance(error, SemelError) else None,
            because=f"{LOOKED_FOR} foreachBatch: java.lang.InterruptedException",
        )
    # It says what happened and what to do; only its length is changed.
    if isinstance(error, SemelError):
        return _with_short_fields(error)
    if isinstance(error, (PySparkException, Py4JJavaError)):
        return _failed_in_spark(short(str(error)), micro_batch, guarantee)
    text = str(error)
    return error if short(text) == text else SinkError(f"{micro_batch}: {type(error).__name__}: {short(text)}")


def _with_short_fields(error: SemelError) -> SemelError:
    """The same error, if need be with less text in its fields."""
    fields = {name: short(value) for name, value in vars(error).items() if type(value) is str}
    if all(getattr(error, name) == value for name, value in fields.items()):
        return error
    shortened = copy.copy(error)
    vars(shortened).update(fields)
    shortened.args = (shortened.summary,)
    return shortened


def _failed_in_spark(text: str, micro_batch: str, guarantee: Guarantee) -> SinkError:
    died = any(words in text for words in _WORKER_DIED)
    outcome, visible = _what_is_visible(guarantee)
    return SinkError(
        f"{micro_batch}: a Python worker of Spark died" if died else f"{micro_batch} failed in Spark",
        outcome=outcome,
        because=text,
        next_command=f"{visible}; when the cause is gone, start the query again from the same checkpoint",
    )


def _what_is_visible(guarantee: Guarantee) -> tuple[Outcome, str]:
    match guarantee:
        case Guarantee.EXACTLY_ONCE:
            return Outcome.DID_NOT_HAPPEN, "nothing of the micro-batch is visible, and the next start writes all of it"
        case Guarantee.AT_LEAST_ONCE:
            return Outcome.UNKNOWN, "some of its rows may be visible, and the next start writes all of them again"
        case Guarantee.AT_MOST_ONCE:
            return Outcome.UNKNOWN, "some of its rows may be missing, and the next start may not write them"
        case _:
            assert_never(guarantee)


def short(text: str) -> str:
    """The text without Java's stack frames and without the words that Spark looks for; its middle goes if it is long.

    Why the middle: what failed stands in front, and the reason, as Python's last line, at the end.
    """
    if len(text) <= TEXT_MAX and LOOKED_FOR not in text:
        return text
    plain = _JAVA_FRAMES.sub("", text.split(_DRIVER_FRAMES, 1)[0]).rstrip().replace(LOOKED_FOR, "calling")
    if len(plain) <= TEXT_MAX:
        return plain
    return plain[:HEAD_MAX] + _CUT + plain[HEAD_MAX + len(_CUT) - TEXT_MAX :]
