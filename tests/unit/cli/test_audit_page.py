"""The page of an audit on disk: the command on it has no password, and a page is there whole or not at all."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

import pytest

from semel.audit.report import Report
from semel.cli.audit import configure
from semel.cli.audit_follow import FOLLOW_ONLY
from semel.cli.audit_page import FLAGS, command_of, write_page
from semel.errors import EnvironmentFailure


def given(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    configure(parser)
    return parser.parse_args(arguments)


def test_the_command_can_be_given_again() -> None:
    arguments = ("a.parquet", "b.parquet", "--key", "id", "--key", "day of week", "--expect", "2", "--order", "--unit")
    options = given(*arguments, "batch", "--examples", "7", "--html", "r.html", "--time-right", "sent")
    told = command_of(options)
    assert told.startswith("semel audit a.parquet b.parquet --key id --key 'day of week'")
    assert given(*shlex.split(told)[2:]) == options


def test_every_option_is_in_the_command() -> None:
    """One that is added later and forgotten here would make another audit of it."""
    options = given("a.parquet", "b.parquet")
    # A page is of an audit that ends.
    assert set(vars(options)) == {"left", "rights", "format", "follow", *FOLLOW_ONLY, *FLAGS.values()}


@pytest.mark.parametrize(
    "words",
    [
        ("--conf", "spark.hadoop.fs.s3a.secret.key=hunter2"),
        ("--conf", "spark.my.password=hunter2"),
        ("--conf", "spark.driver.extraJavaOptions=-Djavax.net.ssl.keyStorePassword=hunter2"),
    ],
)
def test_no_password_is_in_the_command(words: tuple[str, ...]) -> None:
    told = command_of(given("a.parquet", "b.parquet", *words, "--conf", "spark.driver.memory=4g"))
    assert "hunter2" not in told
    assert "spark.driver.memory=4g" in told


def test_what_follows_the_question_mark_of_an_address_is_left_out() -> None:
    told = command_of(given("jdbc:postgresql://h/db?ssl=true&password=hunter2#orders", "b.parquet"))
    assert "hunter2" not in told
    assert "jdbc:postgresql://h/db" in told


def test_a_page_that_cannot_be_written_leaves_the_older_one_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "report.html"
    folder.mkdir()  # it has become a folder since it was looked at
    with pytest.raises(EnvironmentFailure, match="could not be written"):
        write_page(str(folder), Report(comparisons=()), given("a.parquet", "b.parquet"))
    assert list(tmp_path.iterdir()) == [folder]
