"""Sessions: what is set for which master, and what is refused. Starting one is the business of tests/spark."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

import semel.spark
from semel.errors import ConfigError
from semel.spark.sessions import _socket_folder, explain_settings, wanted_settings

SOCKET_PATH_BYTES_MAX = 104  # macOS; Linux has four more


@pytest.mark.parametrize(
    ("master", "is_local"),
    [
        ("local[*]", True),
        ("local", True),
        ("local-cluster[2,1,1024]", True),
        ("spark://host:7077", False),
        ("yarn", False),
        ("k8s://https://host", False),
    ],
)
def test_only_local_masters_get_this_machines_python_and_address(master: str, is_local: bool) -> None:
    variables = {one.name for one in wanted_settings(master) if one.is_variable}
    assert variables == ({"PYSPARK_PYTHON", "SPARK_LOCAL_IP"} if is_local else set())


def test_only_what_stays_on_one_machine_goes_over_unix_sockets_and_uncompressed() -> None:
    everywhere, local = (
        {one.name: one.value for one in wanted_settings(master) if not one.is_variable} for master in ("yarn", "local")
    )
    assert everywhere.items() <= local.items()
    assert {name: local[name] for name in local.keys() - everywhere.keys()} == {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.shuffle.compress": "false",
    }


@pytest.mark.parametrize("usual", ["short", "l" * 80])
def test_sockets_have_a_folder_of_their_own_with_a_short_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, usual: str
) -> None:
    parent = Path(tempfile.mkdtemp(dir="/tmp")) if usual == "short" else tmp_path / usual
    parent.mkdir(exist_ok=True)
    monkeypatch.setattr(tempfile, "tempdir", str(parent))
    folder = Path(_socket_folder())
    assert (folder.parent == parent) is (usual == "short")
    assert len(str(folder / f".{uuid4()}.sock")) < SOCKET_PATH_BYTES_MAX
    assert folder.stat().st_mode & 0o777 == 0o700
    shutil.rmtree(folder)
    parent.rmdir()


def test_every_setting_has_a_reason() -> None:
    assert all(one.because for one in wanted_settings("local"))


def test_spark_connect_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(ConfigError, match="Spark Connect"):
        semel.spark.session()


def test_a_connect_session_needs_nothing() -> None:
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    assert semel.spark.register(session) is session


def test_differences_are_explained() -> None:
    conf = {"spark.python.daemon.module": "pyspark.daemon", "spark.python.worker.reuse": "true"}
    session: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="spark://host:7077"), conf=conf)
    text = explain_settings(session)
    assert "pyspark.daemon (semel would set semel.spark.daemon)" in text
    assert "spark.python.worker.reuse  true  because" in text
    assert "maxRecordsPerBatch  not set (semel would set 50000)" in text
    assert "on every machine" in text


def test_the_package_is_light_for_the_worker_daemon() -> None:
    code = "import sys, semel.spark.daemon; print([m for m in ('pyspark', 'pyarrow') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "[]"


def test_unknown_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = semel.spark.nothing
