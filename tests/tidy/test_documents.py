"""Documents tell the truth: invariants, links, the changelog, the differences page and the API headers."""

import ast
import importlib
import pkgutil
import re
import sys

import pytest
from kio.schema.index import schema_name_map
from kio.static.constants import EntityType

import semel
from semel.broker.network.registry import apis
from semel.protocol import messages
from semel.protocol.message import Message
from tests.tidy.documents import (
    ApiFacts,
    complain_about_anchors,
    complain_about_api,
    complain_about_changelog,
    complain_about_invariants,
    complain_about_service,
    dead_links,
    defined_invariants,
    kept_by,
    local_links,
)
from tests.tidy.measure import parse
from tests.tidy.project import PACKAGE, ROOT, assert_silent, project_files, shown, source_files, text_of


def protocol_apis() -> dict[int, str]:
    """Every API that the protocol has, by key, as kio's schema knows them."""
    found: dict[int, str] = {}
    for versions in schema_name_map.values():
        for entities in versions.values():
            if EntityType.request in entities:
                module, _, name = entities[EntityType.request].partition(":")
                found[getattr(importlib.import_module(module), name).__api_key__] = name.removesuffix("Request")
    return found


def request_names() -> dict[int, str]:
    """Every request that has a message class, by API key."""
    found: dict[int, str] = {}
    for module in pkgutil.iter_modules(messages.__path__):
        content = vars(importlib.import_module(f"{messages.__name__}.{module.name}"))
        requests = [name for name, cls in content.items() if name.endswith("Request") and issubclass(cls, Message)]
        found.update({content[name].API_KEY: name.removesuffix("Request") for name in requests})
    return dict(sorted(found.items()))


def test_every_held_invariant_is_named_by_a_test_and_every_kept_one_is_defined() -> None:
    design = text_of(ROOT / "docs" / "DESIGN.md")
    tests = [text_of(path) for path in (ROOT / "tests").rglob("*.py") if "tidy" not in path.parts]
    headers = {shown(path): ast.get_docstring(parse(text_of(path))) or "" for path in source_files()}
    assert len(defined_invariants(design)) >= 10
    assert_silent(complain_about_invariants(design, tests, headers))


def test_the_changelog_begins_with_the_guarantees() -> None:
    assert_silent(complain_about_changelog(text_of(ROOT / "CHANGELOG.md"), semel.__version__))


def test_every_link_between_documents_leads_somewhere() -> None:
    dead = []
    for path in (path for path in project_files() if path.suffix == ".md"):
        exists = {target: (path.parent / target).exists() for target in local_links(text_of(path))}
        dead += [f"{shown(path)} -> {target}" for target in dead_links(text_of(path), exists)]
    assert_silent(dead)


def test_every_file_that_the_design_walks_through_exists() -> None:
    walks = text_of(ROOT / "docs" / "DESIGN.md").partition("## Paths through the code")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([a-z0-9_]+(?:/[a-z0-9_*]+)+)`", walks))
    homes = (PACKAGE, PACKAGE / "broker", ROOT)
    assert len(named) >= 30
    missing = [one for one in sorted(named) if not any([*home.glob(one), *home.glob(f"{one}.py")] for home in homes)]
    assert missing == []


def test_the_differences_page_has_a_section_for_every_api() -> None:
    names = request_names()
    assert names[22] == "InitProducerId"
    assert_silent(complain_about_anchors(text_of(ROOT / "docs" / "DIFFERENCES.md"), names))


def test_the_differences_page_says_not_served_of_exactly_those_that_are_not() -> None:
    assert_silent(complain_about_service(text_of(ROOT / "docs" / "DIFFERENCES.md"), apis()))


def test_the_differences_page_lists_every_api_of_the_protocol_that_is_not_served() -> None:
    page = text_of(ROOT / "docs" / "DIFFERENCES.md")
    section = page.partition("## APIs that are not served")[2].partition("<a id=")[0]
    listed = {int(key): name for key, name in re.findall(r"\b(\d+)\s([A-Z]\w+)", section)}
    assert listed == {key: name for key, name in protocol_apis().items() if key not in apis()}


def test_every_api_file_says_in_its_header_what_the_registry_says() -> None:
    complaints: list[str] = []
    files: set[str] = set()
    for entry in apis().values():
        module = sys.modules[entry.answer.__module__]
        stem = module.__name__.rpartition(".")[2]
        files.add(stem)
        facts = ApiFacts(
            key=entry.key,
            name=entry.name,
            first=entry.first,
            last=entry.last,
            flexible_from=entry.request.FLEXIBLE_FROM,
        )
        complaints += complain_about_api(stem, module.__doc__ or "", facts)
    assert_silent(complaints)
    assert files == {path.stem for path in (PACKAGE / "broker" / "api").glob("k[0-9]*.py")}


DESIGN = "- **B1** text\n- **E2** (planned) text\n- **B12** text\n"


@pytest.mark.parametrize(
    ("design", "test", "header", "complaints"),
    [
        (DESIGN, "keeps B1 and B12", "M.\n\nKeeps: E2 said; B1 said", 0),
        (DESIGN, "keeps B12", "", 1),
        (DESIGN + "- **B1** again\n", "B1 B12", "", 1),
        (DESIGN, "B1 B12", "M.\n\nKeeps: B1 said;\n       L7 said", 1),
        (DESIGN, "B1 B12", "M.\n\nWhy: L7 is no promise", 0),
    ],
)
def test_an_invariant_without_test_or_definition_is_seen(design: str, test: str, header: str, complaints: int) -> None:
    assert len(list(complain_about_invariants(design, [test], {"m.py": header}))) == complaints


def test_ids_are_read_from_all_lines_of_keeps_only() -> None:
    assert kept_by("M.\n\nKeeps: B1 one; P2 two;\n       L3 three.\nWhy:   K9 no.\n") == ["B1", "P2", "L3"]


@pytest.mark.parametrize(
    ("changelog", "count"),
    [
        ("## Unreleased\n\n### Guarantees\n- x\n\n### Added\n- y\n", 0),
        ("## [0.1.0] - 2026-01-01\n\n### Guarantees\n\n## [0.0.9] - 2025-01-01\n\n### Guarantees\n", 0),
        ("## Unreleased\n\n### Added\n\n### Guarantees\n", 1),
        ("## Unreleased\n\nNothing.\n\n## 0.0.9\n\n### Guarantees\n", 1),
        ("## 0.0.9\n\n### Guarantees\n", 1),
        ("# Changelog\n", 1),
    ],
)
def test_a_changelog_out_of_shape_is_seen(changelog: str, count: int) -> None:
    assert len(list(complain_about_changelog(changelog, "0.1.0.dev0"))) == count


def test_a_dead_link_is_seen_and_an_address_is_not_looked_up() -> None:
    text = "[a](docs/A.md#x) [b](b.md) [c](https://example.org/c.md) [d](#here)"
    assert dead_links(text, {"docs/A.md": True, "b.md": False}) == ["b.md"]


@pytest.mark.parametrize(
    ("page", "count"),
    [
        ('<a id="k00"></a>\n## k00 Produce\n\n<a id="k01"></a>\n## k01 Fetch\n', 0),
        ('<a id="k00"></a>\n## k00 Produce\n\n## k01 Fetch\n', 1),
        ('<a id="k01"></a>\n## k01 Fetch\n\n<a id="k00"></a>\n## k00 Produce\n', 1),
        ('<a id="k02"></a>\n## k00 Produce\n\n<a id="k01"></a>\n## k01 Fetch\n', 1),
        ('<a id="k00"></a>\n## k00 Produced\n\n<a id="k01"></a>\n## k01 Fetch\n', 1),
    ],
)
def test_a_missing_or_wrong_anchor_is_seen(page: str, count: int) -> None:
    assert len(list(complain_about_anchors(page, {0: "Produce", 1: "Fetch"}))) == count


@pytest.mark.parametrize(("served", "count"), [([0], 0), ([0, 1], 1), ([], 1), ([1], 2)])
def test_a_page_that_is_wrong_about_what_is_served_is_seen(served: list[int], count: int) -> None:
    page = '<a id="k00"></a>\n## k00 Produce\n\nNone known.\n\n<a id="k01"></a>\n## k01 Fetch\n\nNot served.\n'
    assert len(list(complain_about_service(page, served))) == count


FACTS = ApiFacts(key=22, name="InitProducerId", first=0, last=5, flexible_from=2)
HEADER = """InitProducerId (key 22, v0-5): hand out a producer id.

Keeps:    B3 one live producer epoch.
Differs:  docs/DIFFERENCES.md#k22
Versions: v2 first flexible.
Sources:  KIP-98.
"""


@pytest.mark.parametrize(
    ("stem", "header", "count"),
    [
        ("k22_init_producer_id", HEADER, 0),
        ("k22_init_producerid", HEADER, 1),
        ("k22_init_producer_id", HEADER.replace("v0-5", "v0-6"), 1),
        ("k22_init_producer_id", HEADER.replace("key 22", "key 23"), 1),
        ("k22_init_producer_id", HEADER.replace("#k22", "#k2"), 1),
        ("k22_init_producer_id", HEADER.replace("v2 first", "v4 first"), 1),
        ("k22_init_producer_id", HEADER.replace("Sources", "Seen"), 1),
        ("k22_init_producer_id", "", 3),
    ],
)
def test_a_header_that_does_not_tell_the_truth_is_seen(stem: str, header: str, count: int) -> None:
    assert len(list(complain_about_api(stem, header, FACTS))) == count
