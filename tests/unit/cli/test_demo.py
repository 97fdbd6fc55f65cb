"""`semel demo`: it holds (P1 damage is refused, P2 records come back exact), and it would say so if it did not."""

import json

import pyarrow as pa
import pytest

from semel.cli import main, roundtrip
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
    assert "1 records" in err


def test_damage_that_goes_unnoticed_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(roundtrip, "is_refused", lambda *_: False)
    assert main(["demo", "--records", "5"]) == ExitCode.BROKEN
    assert capsys.readouterr().out.count("BROKEN") == len(Codec)


@pytest.mark.parametrize("column", ["key", "value", "headers", "timestamp", "offset"])
def test_a_column_that_comes_back_changed_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], column: str
) -> None:
    def decode_wrongly(buffer: bytes | memoryview) -> pa.RecordBatch:
        rows = decode(buffer)
        turned = rows.column(column).take(pa.array(range(rows.num_rows)[::-1]))
        return rows.set_column(rows.schema.get_field_index(column), column, turned)

    decode = roundtrip.decode
    monkeypatch.setattr(roundtrip, "decode", decode_wrongly)
    assert main(["demo", "--records", "5"]) == ExitCode.BROKEN
    assert "CHANGED" in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "-1", "many", "5000001"])
def test_a_senseless_number_of_records_is_refused(count: str) -> None:
    assert main(["demo", "--records", count]) == ExitCode.USAGE
