"""What leaves the sink: a text that Spark's regular expression can be let loose on, and that still says everything."""

import pickle
import re
import traceback

import pytest
from pyspark.errors import PySparkException

from semel.errors import ConfigError, FencedError, Outcome, SinkError
from semel.guarantee import Guarantee
from semel.spark.stopping import LOOKED_FOR, TEXT_MAX, QueryStoppedError, leaving_error, short

# As Spark 4.2 has it in StreamExecution.
PROXY_ERROR = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)"
    r"(java.lang.InterruptedException|java.io.InterruptedIOException|java.nio.channels.ClosedByInterruptException)"
)
FRAME = "\tat org.apache.spark.api.python.BasePythonRunner.compute(PythonRunner.scala:201)\n"
TASK_FAILED = (
    "Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent failure: Lost task 0.0: "
    f"org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n{'  File ...' * 300}\n"
    f"ValueError: the row is odd\n\n{FRAME * 60}\t... 12 more\n\nDriver stacktrace:\n{FRAME * 60}"
)


def leave(error: Exception, *, stopped: bool = False, guarantee: Guarantee = Guarantee.EXACTLY_ONCE) -> str:
    """What py4j tells Spark about this error, which was raised while another was on its way."""
    error.__context__ = ValueError(f"{LOOKED_FOR} o1.collect. java.lang.InterruptedException {'x' * 10_000}")
    left = leaving_error(error, stopped=stopped, micro_batch="micro-batch 7", guarantee=guarantee)
    left.__suppress_context__ = True  # as `from None` does
    return "".join(traceback.format_exception(left))


ERRORS = [
    SinkError("odd", because="x" * 100_000, next_command="look"),
    SinkError("odd", because=f"{LOOKED_FOR} o1.x. java.lang.InterruptedException"),
    PySparkException(TASK_FAILED),
    RuntimeError("y" * 100_000),
    KeyError("z"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_stop_is_short_and_says_what_spark_looks_for(error: Exception) -> None:
    text = leave(error, stopped=True)
    found = PROXY_ERROR.search(text)
    assert found is not None
    assert len(found[0]) < 200
    assert len(text) < TEXT_MAX


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_failure_is_bounded_and_never_looks_like_a_stop(error: Exception) -> None:
    text = leave(error)
    assert LOOKED_FOR not in text
    assert len(text) < 2 * TEXT_MAX


def test_a_message_is_whole() -> None:
    """The type, every line and the fields; an error that is short enough is itself."""
    error = FencedError("a newer driver has taken over", code=90, because="it did", next_command="stop this one")
    text = leave(error)
    assert "semel.errors.FencedError: a newer driver has taken over\n" in text
    assert "  because     it did\n" in text
    assert "  next        stop this one\n" in text
    assert leaving_error(error, stopped=False, micro_batch="m", guarantee=Guarantee.EXACTLY_ONCE) is error


def test_a_long_field_is_cut_and_the_error_stays_what_it_was() -> None:
    error = ConfigError("wrong", you_wrote="a" * 10_000 + " the end", next_command="write less")
    left = leaving_error(error, stopped=False, micro_batch="m", guarantee=Guarantee.EXACTLY_ONCE)
    assert type(left) is ConfigError
    assert len(left.you_wrote) == TEXT_MAX
    assert left.you_wrote.endswith(" the end")
    assert left.next_command == "write less"
    assert len(error.you_wrote) > TEXT_MAX
    assert str(pickle.loads(pickle.dumps(left))) == str(left)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_failed_job_says_what_is_visible(guarantee: Guarantee) -> None:
    left = leaving_error(PySparkException(TASK_FAILED), stopped=False, micro_batch="m 7", guarantee=guarantee)
    assert isinstance(left, SinkError)
    assert left.summary == "m 7 failed in Spark"
    assert "ValueError: the row is odd" in str(left)
    assert "BasePythonRunner" not in str(left)
    assert "from the same checkpoint" in str(left)
    assert (left.outcome is Outcome.DID_NOT_HAPPEN) == (guarantee is Guarantee.EXACTLY_ONCE)


def test_a_stop_keeps_what_is_known_of_the_outcome() -> None:
    unknown = SinkError("the commit", outcome=Outcome.UNKNOWN)
    left = leaving_error(unknown, stopped=True, micro_batch="m", guarantee=Guarantee.EXACTLY_ONCE)
    assert isinstance(left, QueryStoppedError)
    assert left.outcome is Outcome.UNKNOWN


def test_short_text_is_left_alone() -> None:
    text = f"one\n{FRAME}two"
    assert short(text) == text
