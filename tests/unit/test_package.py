"""`semel` as a newcomer meets it: names are offered before they are imported, the README defines what it uses."""

import ast
import builtins
import re
import subprocess
import sys
from pathlib import Path

import pytest

import semel

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "guide").glob("*.md"))]
README = re.findall(r"^```python\n(.*?)^```", PAGES[0].read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_every_name_is_completed_and_can_be_used() -> None:
    assert set(semel.__all__) <= set(dir(semel))
    assert [name for name in dir(semel) if not hasattr(semel, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'Kafka'"):
        _ = semel.Kafka


def test_names_are_completed_before_anything_heavy_is_imported() -> None:
    program = "import sys, semel; dir(semel); print(sorted({'pyspark', 'confluent_kafka', 'psycopg'} & {*sys.modules}))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "[]\n"


def undefined_names(program: str) -> set[str]:
    """What a program uses and neither imports nor sets."""
    names = [node for node in ast.walk(ast.parse(program)) if isinstance(node, ast.Name)]
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {node.id for node in names} - stored - imported - set(dir(builtins))


def test_the_first_program_of_the_readme_defines_what_it_uses() -> None:
    assert 'guarantee="exactly_once"' in README[0]
    assert undefined_names(README[0]) == set()


def test_a_name_that_is_not_defined_is_seen() -> None:
    assert undefined_names("import semel\nquery = semel.write_stream(rows)") == {"rows"}


def test_every_name_of_semel_in_the_pages_exists() -> None:
    blocks = {
        (page.name, block)
        for page in PAGES
        for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    }
    named = {(page, name) for page, block in blocks for name in re.findall(r"\bsemel\.(\w+)\(", block)}
    assert len(named) >= 10
    assert [(page, name) for page, name in sorted(named) if not hasattr(semel, name)] == []


def test_an_error_class_is_said_to_be_elsewhere() -> None:
    with pytest.raises(AttributeError, match=r"from semel\.errors import FencedError"):
        _ = semel.FencedError
