"""A key goes to the partition that the Java client sends it to."""

import json
from pathlib import Path

import pyarrow as pa

from semel.protocol.columns import partition_keys
from tests.support.murmur2 import murmur2, partition_of
from tests.vectors.cases import Json, unpack

PATH = Path(__file__).resolve().parent / "data" / "murmur2.json"


def vectors() -> list[tuple[bytes, Json]]:
    return [(unpack(one["key"]) or b"", one) for one in json.loads(PATH.read_text())["keys"]]


def test_hash_is_java_s() -> None:
    """Java's number is signed, semel's is not; the bits are the same."""
    assert {key: murmur2(key) for key, _ in vectors()} == {key: one["hash"] % 2**32 for key, one in vectors()}


def test_partition_is_java_s() -> None:
    for key, one in vectors():
        assert {count: partition_of(key, int(count)) for count in one["partitions"]} == one["partitions"], key


def test_partitions_of_a_column_are_java_s() -> None:
    keys = pa.array([key for key, _ in vectors()], pa.binary())
    for count in vectors()[0][1]["partitions"]:
        wanted = [one["partitions"][count] for _, one in vectors()]
        assert partition_keys(keys, int(count)).tolist() == wanted


def test_the_vectors_cover_what_matters() -> None:
    """Every tail length of the four-byte loop, and hashes of either sign: the sign bit is what goes wrong first."""
    assert {len(key) for key, _ in vectors()} >= set(range(21))
    assert {one["hash"] < 0 for _, one in vectors()} == {True, False}
