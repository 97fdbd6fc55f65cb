"""Jars come once, whole, and with a clear word when they do not come. A folder plays the Maven repository."""

import re
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from zipfile import ZipFile

import pytest

import semel.engine.jars
from semel.engine import jar_digests
from semel.engine.jars import JAR_SETS, Coordinate, JarSet, class_path, fetch_jars, folder_name
from semel.errors import ConfigError, EnvironmentFailure, MissingExtraError

APP = Coordinate.parse("org.example:app:1.0")
TOOL = Coordinate.parse("org.example:tool:2.0")
SETTINGS = """<ivysettings><settings defaultResolver="folder"/><resolvers><filesystem name="folder" m2compatible="true">
<ivy pattern="{0}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>
<artifact pattern="{0}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""
POM = """<project><modelVersion>4.0.0</modelVersion><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>
<version>{0.version}</version><dependencies>{1}</dependencies></project>"""
NEEDS = """<dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId>
<version>{0.version}</version></dependency>"""


def publish(repository: Path, coordinate: Coordinate, *needs: Coordinate) -> None:
    folder = repository.joinpath(*coordinate.group.split("."), coordinate.artifact, coordinate.version)
    folder.mkdir(parents=True)
    name = f"{coordinate.artifact}-{coordinate.version}"
    (folder / f"{name}.pom").write_text(POM.format(coordinate, "".join(NEEDS.format(other) for other in needs)))
    with ZipFile(folder / f"{name}.jar", "w") as jar:
        jar.writestr("content", str(coordinate))


def pins_of(repository: Path) -> dict[str, dict[str, str]]:
    """What a maintainer would have pinned."""
    digests = {jar.name: sha256(jar.read_bytes()).hexdigest() for jar in repository.rglob("*.jar")}
    return {
        folder_name(APP, transitive=True): digests,
        folder_name(APP, transitive=False): {"app-1.0.jar": digests["app-1.0.jar"]},
        folder_name(TOOL, transitive=True): {"tool-2.0.jar": digests["tool-2.0.jar"]},
    }


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publish `app`, which needs `tool`; the cache is empty and the network is not asked."""
    folder = tmp_path / "repository"
    publish(folder, APP, TOOL)
    publish(folder, TOOL)
    (tmp_path / "settings.xml").write_text(SETTINGS.format(folder))
    pins = pins_of(folder)
    monkeypatch.setattr(jar_digests, "pinned", lambda: pins)
    monkeypatch.setenv("SEMEL_IVY_SETTINGS", str(tmp_path / "settings.xml"))
    monkeypatch.setenv("SEMEL_CACHE", str(tmp_path / "cache"))
    return folder


def names(jars: list[Path]) -> list[str]:
    return [jar.name for jar in jars]


def test_with_and_without_dependencies(capfd: pytest.CaptureFixture[str]) -> None:
    assert names(fetch_jars(APP)) == ["app-1.0.jar", "tool-2.0.jar"]
    assert names(fetch_jars(APP, transitive=False)) == ["app-1.0.jar"]
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "fetching org.example:app:1.0" in printed.err
    assert "fetched org.example:app:1.0: 2 jars" in printed.err


@pytest.mark.full
def test_a_second_call_needs_no_repository(repository: Path, capfd: pytest.CaptureFixture[str]) -> None:
    first = fetch_jars(APP)
    shutil.rmtree(repository)
    capfd.readouterr()
    assert fetch_jars(APP) == first
    assert capfd.readouterr().err == ""


def test_what_is_not_there_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    missing = Coordinate.parse("org.example:nothing:1.0")
    with pytest.raises(EnvironmentFailure) as caught:
        fetch_jars(missing)
    text = str(caught.value)
    assert "org.example:nothing:1.0 could not be fetched: Ivy ended with 1" in text
    assert "org.example#nothing;1.0: not found" in text
    assert "SEMEL_IVY_SETTINGS" in text
    assert list((tmp_path / "cache" / "jars").glob("*/*")) == []


@pytest.mark.full
def test_a_missing_dependency_is_an_error_too(repository: Path) -> None:
    shutil.rmtree(repository / "org" / "example" / "tool")
    with pytest.raises(EnvironmentFailure, match=r"org\.example#tool;2\.0: not found"):
        fetch_jars(APP)


def test_a_repository_that_does_not_answer_has_a_limit() -> None:
    with pytest.raises(EnvironmentFailure, match=r"no end after 0 s"):
        fetch_jars(APP, wait_ms_max=1)


@pytest.mark.full
def test_a_pom_without_its_jar_is_an_error(repository: Path) -> None:
    (repository / "org" / "example" / "tool" / "2.0" / "tool-2.0.jar").unlink()
    with pytest.raises(EnvironmentFailure, match=r"org\.example:tool:2\.0 could not be fetched"):
        fetch_jars(TOOL)


@pytest.mark.full
def test_a_pom_that_stands_for_no_jar_is_an_error(repository: Path) -> None:
    pom = repository / "org" / "example" / "tool" / "2.0" / "tool-2.0.pom"
    pom.write_text(pom.read_text().replace("<version>", "<packaging>pom</packaging><version>", 1))
    pom.with_suffix(".jar").unlink()
    with pytest.raises(EnvironmentFailure, match="brought no such jar"):
        fetch_jars(TOOL)


def test_a_certificate_that_java_does_not_trust_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh
case "$1" in
  -XshowSettings*) echo ' java.specification.version = 17'; echo ' java.home = {tmp_path}' ;;
  *) echo 'Server access error (PKIX path building failed: unable to find valid certification path)'; exit 1 ;;
esac
""")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    with pytest.raises(EnvironmentFailure, match=r"(?s)PKIX path.*does not trust the certificate.*trustStore"):
        fetch_jars(APP)


@pytest.mark.full
def test_a_class_path_lists_each_jar_once() -> None:
    both = JarSet.of("both", str(APP), str(TOOL), transitive=True)
    assert [Path(part).name for part in class_path(both).split(":")] == ["app-1.0.jar", "tool-2.0.jar"]


@pytest.mark.parametrize("text", ["a:b", "a:b:c:d", "a::1", "../x:b:1", "a:b:1/2", "a:b:..", 'a:b:"1"', "a:b:[1,2)"])
def test_a_wrong_coordinate_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="coordinate"):
        Coordinate.parse(text)


def test_without_pyspark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(semel.engine.jars, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"\[spark\]"):
        fetch_jars(APP)


@pytest.mark.full
def test_a_jar_that_the_repository_has_changed_is_not_kept(tmp_path: Path, repository: Path) -> None:
    with ZipFile(repository / "org" / "example" / "tool" / "2.0" / "tool-2.0.jar", "a") as jar:
        jar.writestr("more", "planted")
    with pytest.raises(EnvironmentFailure, match=r"tool-2\.0\.jar has another SHA-256") as refused:
        fetch_jars(APP)
    assert "the repository of" in refused.value.because
    assert list((tmp_path / "cache" / "jars").glob("*/*")) == []


def plant(folder: Path) -> str:
    (folder / "aaa.jar").write_bytes(b"planted")
    return r"aaa\.jar does not belong there"


def change(folder: Path) -> str:
    with (folder / "tool-2.0.jar").open("r+b") as jar:
        jar.write(b"planted")
    return r"tool-2\.0\.jar has another SHA-256"


def take_away(folder: Path) -> str:
    (folder / "tool-2.0.jar").unlink()
    return r"tool-2\.0\.jar is missing"


@pytest.mark.quick(1)
@pytest.mark.parametrize("harm", [plant, change, take_away])
def test_a_jar_that_was_changed_in_the_cache_is_not_used(harm: Callable[[Path], str]) -> None:
    folder = fetch_jars(APP)[0].parent
    words = harm(folder)
    with pytest.raises(EnvironmentFailure, match=words) as refused:
        fetch_jars(APP)
    assert f"rm -r {folder}" in refused.value.next_command
    shutil.rmtree(folder)
    assert names(fetch_jars(APP)) == ["app-1.0.jar", "tool-2.0.jar"]


@pytest.mark.full
def test_a_folder_of_jars_that_others_can_write_to_is_not_used(tmp_path: Path) -> None:
    folder = fetch_jars(APP)[0].parent
    for place in (folder, folder.parent, tmp_path / "cache"):
        place.chmod(0o770)
        with pytest.raises(EnvironmentFailure, match="can be written by others"):
            fetch_jars(APP)
        place.chmod(0o700)
    assert fetch_jars(APP)


def test_jars_that_nobody_has_pinned_are_not_fetched_for_use() -> None:
    with pytest.raises(EnvironmentFailure, match=r"(?s)nobody has pinned .*tool.*make pin-jars"):
        fetch_jars(TOOL, transitive=False)


def test_every_jar_of_every_set_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pins = jar_digests.pinned()
    for jar_set in JAR_SETS:
        for coordinate in jar_set.coordinates:
            jars = pins[folder_name(coordinate, jar_set.transitive)]
            assert f"{coordinate.artifact}-{coordinate.version}.jar" in jars
    by_name: dict[str, set[str]] = {}
    for jars in pins.values():
        for jar, digest in jars.items():
            assert re.fullmatch("[0-9a-f]{64}", digest)
            by_name.setdefault(jar, set()).add(digest)
    assert [jar for jar, digests in by_name.items() if len(digests) != 1] == []


def test_named_sets_have_their_own_names() -> None:
    assert len({jar_set.name for jar_set in JAR_SETS}) == len(JAR_SETS)
