"""`semel demo`: it holds (P1 damage is refused, P2 records come back exact), and it would say so if it did not."""

import json

import pytest

from semel.cli import demo, main
from semel.cli.exit_code import ExitCode
from semel.protocol.compression import Codec


def test_every_codec_holds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--records", "50", "--format", "json"]) == ExitCode.HELD
    report = json.loads(capsys.readouterr().out)
    assert [trial["codec"] for trial in report["trials"]] == [codec.name.lower() for codec in Codec]
    assert [(trial["equal"], trial["flips_refused"]) for trial in report["trials"]] == [(True, 64)] * 5


def test_the_table_is_data_and_the_introduction_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--records", "1"]) == ExitCode.HELD
    out, err = capsys.readouterr()
    assert [line.split()[0] for line in out.splitlines()] == ["codec", "none", "gzip", "snappy", "lz4", "zstd"]
    assert err.startswith("1 records")


def test_damage_that_goes_unnoticed_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "is_refused", lambda *_: False)
    assert main(["demo", "--records", "5"]) == ExitCode.BROKEN
    assert capsys.readouterr().out.count("BROKEN") == len(Codec)


def test_records_that_come_back_changed_are_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "decode", lambda _: [])
    assert main(["demo", "--records", "5"]) == ExitCode.BROKEN
    assert "CHANGED" in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "-1", "many", "1000001"])
def test_a_senseless_number_of_records_is_refused(count: str) -> None:
    assert main(["demo", "--records", count]) == ExitCode.USAGE
