"""`semel pipeline` on other clusters: one that asks who you are, and Apache Kafka."""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from semel.cli.exit_code import ExitCode
from semel.engine.apache import ApacheCluster
from semel.engine.embedded import Cluster
from semel.engine.tls import Security, Tls
from tests.pipeline.staged import Staged

Out = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheCluster]:
    with ApacheCluster() as started:
        yield started


def use_every_verb(staged: Staged, capsys: Out, *more: str) -> None:
    """Look, take the checkpoint back, be refused, let it go on, run everything again, give the name up."""
    folder = str(staged.folder)
    assert staged.status(capsys, *more)[0] == ExitCode.HELD
    for name in ("offsets/1", "commits/1"):
        (staged.folder / name).unlink()
    staged.send(5)
    code, told = staged.status(capsys, *more)
    assert (code, told["next"][0]["row"]) == (ExitCode.BROKEN, "D18")
    assert staged.run("reset", "--to", "ledger", "--checkpoint", folder, "--yes", *more) == ExitCode.HELD
    assert staged.status(capsys, *more)[0] == ExitCode.HELD
    assert staged.run("reset", "--to", "earliest", "--checkpoint", folder, "--yes", *more) == ExitCode.HELD
    assert set(staged.ledger().offsets.values()) == {0}
    assert staged.run("repair", *more) == ExitCode.HELD
    assert staged.run("release", "--yes", *more) == ExitCode.HELD
    assert not staged.committed()


@pytest.mark.full
def test_apache_kafka(apache: ApacheCluster, tmp_path: Path, capsys: Out) -> None:
    # All that a staged pipeline needs of a cluster is its address.
    use_every_verb(Staged.level(cast(Cluster, apache), tmp_path), capsys)


def test_a_cluster_with_users_and_tls(tmp_path: Path, capsys: Out) -> None:
    security = Security(tls=Tls.self_signed(), users={"alice": "alice-5ecret"})
    with Cluster(brokers=1, config={"log.retention.ms": "-1"}, security=security) as cluster:
        settings = cluster.client_settings_of("alice")
        file = tmp_path / "client.properties"
        lines = [f"{name}={value}" for name, value in settings.items() if name != "bootstrap.servers"]
        file.write_text("\n".join(lines))
        staged = Staged.level(cluster, tmp_path / "checkpoint", settings=settings)
        use_every_verb(staged, capsys, "--command-config", str(file))
        assert "alice-5ecret" not in "".join(capsys.readouterr())
