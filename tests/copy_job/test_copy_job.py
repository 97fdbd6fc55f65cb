"""Java copiers move records from topic to topic, exactly once, while they and the brokers are killed.

Keeps: T1 T2 T3 T4 T6 together, with real clients in real processes.
"""

import sys
from collections import Counter

import pytest

import semel
from tests.copy_job.job import PARTITIONS, SETTINGS, SOURCE, TARGET, run_copy_job


def check_copy(records: int, *, seed: int, pause_s: float, faults_min: int, capsys: pytest.CaptureFixture[str]) -> None:
    topics = [f"{SOURCE}:{PARTITIONS}", f"{TARGET}:{PARTITIONS}"]
    with semel.Cluster(brokers=3, topics=topics, config=SETTINGS) as cluster:
        faults, copied = run_copy_job(cluster, records, seed=seed, pause_s=pause_s)
    wanted = Counter(pair for rows in copied.source.values() for pair in rows)
    got = Counter(pair for rows in copied.committed.values() for pair in rows)
    aborted = sum(map(len, copied.uncommitted.values())) - got.total()
    with capsys.disabled():
        sys.stdout.write(f"\ncopy job: {records} records, {aborted} aborted copies, {faults}\n")
    assert got == wanted, f"lost {(wanted - got).total()}, duplicated {(got - wanted).total()}"
    assert copied.out_of_order() == 0
    assert aborted > 0, "read_uncommitted sees what was aborted"
    assert faults.kills >= faults_min
    assert faults.restarts >= faults_min
    assert faults.said["abort"] >= 1


@pytest.mark.full
def test_copies_are_exact_under_kills(capsys: pytest.CaptureFixture[str]) -> None:
    check_copy(200_000, seed=1, pause_s=1.0, faults_min=2, capsys=capsys)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_long_copy_is_exact_under_kills(capsys: pytest.CaptureFixture[str]) -> None:
    check_copy(2_000_000, seed=2, pause_s=1.5, faults_min=5, capsys=capsys)
