"""Words: one name per concept, nondeterminism only through the world, nothing private in any file."""

import pytest

from tests.tidy.project import PACKAGE, ROOT, assert_silent, project_files, shown, source_files, text_of
from tests.tidy.rules import (
    BANNED_CALLS,
    BANNED_IN_SIMULATED_CODE,
    complain_about_calls,
    complain_about_flags,
    complain_about_issue_numbers,
    complain_about_names,
    complain_about_runtime_imports,
    complain_about_text,
)

FILE_BYTES_MAX = 1_000_000
# These run in virtual time under one seed.
SIMULATED = (PACKAGE / "protocol", PACKAGE / "broker")
PROSE = {".md", ".py", ".toml", ".java", ".sh", ""}


def test_no_defined_name_has_a_banned_word() -> None:
    sources = [*source_files(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    complaints = [line for path in sources for line in complain_about_names(shown(path), text_of(path))]
    assert_silent(complaints)


def test_no_guarantee_travels_as_a_flag() -> None:
    assert_silent([line for path in source_files() for line in complain_about_flags(shown(path), text_of(path))])


def test_nondeterminism_comes_from_the_world_only() -> None:
    complaints = [
        line
        for path in source_files()
        if PACKAGE / "world" not in path.parents
        for line in complain_about_calls(shown(path), text_of(path), BANNED_CALLS)
    ]
    assert_silent(complaints)


def test_simulated_code_has_no_other_source_of_time_or_chance() -> None:
    complaints = [
        line
        for path in source_files()
        if any(folder in path.parents for folder in SIMULATED)
        for line in complain_about_calls(shown(path), text_of(path), BANNED_IN_SIMULATED_CODE)
    ]
    assert_silent(complaints)


def test_parts_of_a_broker_name_its_class_in_annotations_alone() -> None:
    """The import contract lets them: it cannot tell an annotation from a use."""
    above = {PACKAGE / "broker" / "broker.py", PACKAGE / "broker" / "cluster.py"}
    parts = [path for path in source_files() if PACKAGE / "broker" in path.parents and path not in above]
    module = "semel.broker.broker"
    assert_silent(
        [line for path in parts for line in complain_about_runtime_imports(shown(path), text_of(path), module)]
    )


def test_an_import_that_is_carried_out_is_seen() -> None:
    used = "from typing import TYPE_CHECKING\nfrom a.b import C\n"
    named = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import C\n"
    assert len(complain_about_runtime_imports("x.py", used, "a.b")) == 1
    assert complain_about_runtime_imports("x.py", named, "a.b") == []


def test_no_file_holds_a_registry_address_a_private_path_or_an_aside() -> None:
    assert_silent([line for path in project_files() for line in complain_about_text(shown(path), text_of(path))])


def test_no_file_leans_on_an_issue_number() -> None:
    prose = [path for path in project_files() if path.suffix in PROSE]
    assert_silent([line for path in prose for line in complain_about_issue_numbers(shown(path), text_of(path))])


def test_the_lock_file_has_hashes_and_no_addresses() -> None:
    lock = text_of(ROOT / "requirements" / "dev.lock")
    assert "--hash=sha256:" in lock
    assert "://" not in lock
    assert "--index" not in lock


def test_no_file_is_a_big_blob() -> None:
    assert [shown(path) for path in project_files() if path.stat().st_size > FILE_BYTES_MAX] == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("src/semel/utils.py", ""),
        ("src/semel/helpers/log.py", ""),
        ("m.py", "class TopicManager: ..."),
        ("m.py", "def handle_produce(): ..."),
        ("m.py", "class C:\n    async def run_chaos(self): ..."),
        ("m.py", "class DeliverySemantics: ..."),
    ],
)
def test_a_banned_word_is_seen(path: str, source: str) -> None:
    assert len(list(complain_about_names(path, source))) == 1


@pytest.mark.parametrize(
    "source", ["def handled(): ...", "class Utility: ...", "handle = 1", "def commit(handle): ..."]
)
def test_only_whole_words_of_defined_names_count(source: str) -> None:
    assert list(complain_about_names("m.py", source)) == []


@pytest.mark.parametrize("source", ["def f(exactly_once: bool): ...", "class C:\n    exactly_once: bool = True"])
def test_a_guarantee_as_a_flag_is_seen(source: str) -> None:
    assert len(list(complain_about_flags("m.py", source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import time\ntime.time()",
        "import time as t\nt.time()",
        "from time import time\ntime()",
        "from time import time as now\nnow()",
        "import random\nrandom.shuffle(x)",
        "from random import Random\nRandom(1)",
        "import asyncio\nasync def f():\n    await asyncio.sleep(1)",
        "from asyncio import sleep\nasync def f():\n    await sleep(1)",
    ],
)
def test_a_banned_call_is_seen_however_it_is_imported(source: str) -> None:
    assert "take it from the world" in next(complain_about_calls("m.py", source, BANNED_CALLS))


@pytest.mark.parametrize(
    "source",
    ["import time\ntime.perf_counter()", "clock.time()", "from x import time\ntime()", "def random(): ...\nrandom()"],
)
def test_other_calls_are_let_alone(source: str) -> None:
    assert list(complain_about_calls("m.py", source, BANNED_CALLS)) == []


def test_simulated_code_may_not_ask_the_system_either() -> None:
    source = "from datetime import datetime\nimport uuid\ndatetime.now()\nuuid.uuid4()"
    assert len(list(complain_about_calls("m.py", source, BANNED_IN_SIMULATED_CODE))) == 2


@pytest.mark.parametrize(
    "text",
    [
        "see https://py" + "pi.org/simple",
        "files.python" + "hosted.org",
        "https://repo1" + ".maven" + ".org/x",
        'path = "/ro' + 'ot/.cache"',
        "cd /wo" + "rk/main",
        "/home" + "/somebody/semel",
        "written by a language" + " model",
        "# TO" + "DO: later",
        "Co-Authored" + "-By: x",
    ],
)
def test_what_has_no_place_in_a_file_is_seen(text: str) -> None:
    assert len(list(complain_about_text("f.md", f"fine\n{text}\n"))) == 1


@pytest.mark.parametrize(
    "text",
    ["pip install semel", "src/work/x", "~/root", "the root/ folder", "$HOME/work/", "/home/<you>", "network/root"],
)
def test_ordinary_text_is_let_alone(text: str) -> None:
    assert list(complain_about_text("f.md", text)) == []


@pytest.mark.parametrize(
    ("text", "count"), [("fixes #" + "12", 1), ("issue" + " 7", 1), ("DIFFERENCES.md#k22", 0), ("## 2", 0)]
)
def test_an_issue_number_is_seen(text: str, count: int) -> None:
    assert len(list(complain_about_issue_numbers("f.md", text))) == count
