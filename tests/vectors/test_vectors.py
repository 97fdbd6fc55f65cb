"""semel reads what the Java client and librdkafka wrote, record for record and field for field."""

import json
from pathlib import Path

import pytest

from tests.vectors.cases import CODECS, Json
from tests.vectors.observed import observed_batches, spelled_out

DATA = Path(__file__).resolve().parent / "data"
NAMES = sorted(path.stem for path in DATA.glob("*.bin"))


def expected_batches(name: str) -> list[Json]:
    return spelled_out(json.loads((DATA / f"{name}.json").read_text())["batches"])


@pytest.mark.parametrize("name", NAMES)
def test_slow_path_reads_the_vector(name: str) -> None:
    assert observed_batches((DATA / f"{name}.bin").read_bytes()) == expected_batches(name)


@pytest.mark.parametrize("writer", ["java", "librdkafka"])
def test_every_codec_has_vectors_from_both_writers(writer: str) -> None:
    names = [name for name in NAMES if name.startswith(writer)]
    assert {batch["codec"] for name in names for batch in expected_batches(name)} == set(CODECS)


def test_every_vector_has_a_provenance() -> None:
    text = (DATA.parent / "PROVENANCE.md").read_text()
    unnamed = [name for name in NAMES if f"`{name.split('_', 1)[1]}`" not in text]
    assert NAMES
    assert unnamed == []
    assert {path.stem for path in DATA.glob("*.json")} == {*NAMES, "murmur2"}
