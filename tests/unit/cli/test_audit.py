"""`semel audit` up to the point where Spark would start: what is refused before, and with which exit code."""

from pathlib import Path

import pytest

from semel.cli import main

FILE = 'from = "parquet:a"\n[[to]]\nplace = "parquet:b"\n'


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the files that the arguments name."""
    monkeypatch.chdir(tmp_path)
    Path("audit.toml").write_text(FILE)
    Path("hurried").write_text("default.api.timeout.ms=1000\nrequest.timeout.ms=1000\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 3, "an audit has two sides"),
        (["parquet:x"], 3, "an audit has two sides"),
        (["orders", "parquet:x"], 3, "cannot be read"),
        (["kafka://127.0.0.1:1/orders", "parquet:x", "--command-config", "hurried"], 4, "cannot be reached"),
        (["kafka://a:1/x", "kafka://b:1/x", "--command-config", "hurried"], 3, "topics of one cluster"),
        (["parquet:x", "parquet:x", "parquet:x"], 3, "named twice"),
        (["parquet:x", "parquet:y", "--order"], 3, "between topics"),
        (["parquet:x", "parquet:y", "--pipeline", "p"], 3, "ledger"),
        (["parquet:x", "parquet:y", "--expect", "0"], 3, "cannot be expected"),
        (["parquet:x", "parquet:y", "--map-left", "id"], 3, "--map-left 'id' cannot be read"),
        (["parquet:x", "parquet:y", "--examples", "many"], 3, "--examples"),
        (["parquet:x", "parquet:y", "--examples", "-1"], 3, "-1 examples of each kind"),
        (["parquet:x", "parquet:y", "--examples", "101"], 3, "101 examples of each kind"),
        (["--config", "missing.toml"], 3, "No such file"),
        (["--config", "audit.toml", "--key", "id"], 3, "so do other arguments"),
        (["--config", "audit.toml", "--expect", "2"], 3, "so do other arguments"),
        (["parquet:x", "parquet:y", "--config", "audit.toml"], 3, "so do other arguments"),
        (["--config", "audit.toml", "--unit", "batch"], 3, "so do other arguments"),
        (["delta:x", "parquet:y"], 3, "is no Delta table"),
        (["jdbc:postgresql://h/shop?password=x#a", "parquet:y"], 3, "a login does not belong into an address"),
        (["parquet:x", "parquet:y", "--jdbc-config", "hurried"], 3, "tables of one database"),
        (["jdbc:postgresql://h/shop#a", "parquet:y", "--jdbc-config", "hurried"], 3, "means nothing here"),
        (["parquet:x", "parquet:y", "--html", "."], 3, "is no file"),
        (["parquet:x", "parquet:y", "--html", "/dev/null"], 3, "is no file"),
        (["parquet:x", "parquet:y", "--html", "nowhere/report.html"], 3, "there is no folder"),
        (["parquet:x", "parquet:y", "--time-left", "sent"], 3, "no page is asked for"),
        (["kafka://127.0.0.1:1/orders", "delta:x", "--follow"], 3, "repeated, with --pipeline NAME"),
        (["kafka://127.0.0.1:1/orders", "jdbc:postgresql://h/shop#a", "--follow"], 3, "from topic to topic"),
    ],
)
def test_bad_input_is_told_apart_before_spark_starts(
    in_folder: None, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    assert main(["audit", *arguments]) == code
    told = capsys.readouterr()
    assert said in told.err
    assert not told.out
