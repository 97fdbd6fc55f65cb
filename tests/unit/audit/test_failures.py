"""What Spark says when it fails, and what a user is told."""

import pytest

from semel.audit.failures import NO_POSITION, explain_failure
from semel.cli.exit_code import ExitCode, exit_code_of


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("Job aborted.\nCaused by: java.lang.OutOfMemoryError: Java heap space", ExitCode.ENVIRONMENT, "memory"),
        ("[X] failed\nCaused by: java.io.IOException: No space left on device", ExitCode.ENVIRONMENT, "disk"),
        (f"[USER_RAISED_EXCEPTION] {NO_POSITION}, left", ExitCode.USAGE, "no position"),
        ("[CAST_INVALID_INPUT] The value 'x' of the type STRING", ExitCode.USAGE, "try_cast"),
        ("[MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] {", ExitCode.USAGE, "cannot be read"),
        ("semel.errors.ConnectionFailure: broker 1", ExitCode.ENVIRONMENT, "reached"),
        ("semel.spark.data_loss.DataLossError: orders-0", ExitCode.UNKNOWN, "removed while it was read"),
        ("something else\nat org.apache", ExitCode.UNKNOWN, "something else"),
        ("", ExitCode.UNKNOWN, "did not say why"),
    ],
)
def test_failures_are_told_apart(text: str, code: ExitCode, said: str) -> None:
    error = explain_failure(text)
    assert exit_code_of(error) is code
    assert said in str(error)


def test_the_innermost_cause_is_told_and_cut() -> None:
    text = "Job aborted\nCaused by: outer\n  at x\nCaused by: " + "inner " * 1000
    assert explain_failure(text).because.startswith("inner")
    assert len(explain_failure(text).because) <= 300
