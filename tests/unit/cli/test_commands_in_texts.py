"""Whatever a text tells people to run exists: commands of semel, targets of make, rules, invariants, errors, methods.

Looked at are all strings of the package that are no docstrings, with something in place of what an f-string fills in,
and the console blocks of the documents.
"""

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

import semel
from semel.check.explanation import explain
from semel.check.rules import RULES
from semel.cli import COMMANDS
from semel.cli.shell import find_command, parser_of
from semel.errors import ConfigError
from semel.sinks.commands import repair_command, reset_command, status_command

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "src" / "semel").rglob("*.py"))
PAGES = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")})
NAMES = "|".join(command.name for command in COMMANDS)
# A command ends where the sentence goes on. "semel check" alone is its name, not something to run.
COMMAND = re.compile(rf"(?<![\w/.])semel (?:{NAMES})\b(?:(?! or )[^,;:`()\n])*")
BY_NAME = {command.name: command for command in COMMANDS}
SAMPLES = {"rule": "S014", "rule.id": "S014", "first": "S014", "by_clients.__name__": "FencedError"}
SAMPLES |= {"self.seed": "3", "options.seed": "3", "engine": " --engine apache --nodes 3"}
OWNERS = {
    "store": (semel.SqliteStore, semel.PostgresStore),
    "producer": (semel.Producer, semel.AsyncProducer),
    "consumer": (semel.Consumer, semel.AsyncConsumer),
}


def strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every string with its line; docstrings are for programmers and left out."""
    skipped = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            assert isinstance(node.body[0], ast.Expr)
            skipped.add(id(node.body[0].value))
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(map(filled, node.values))


def filled(part: ast.expr) -> str:
    """What stands there, or something that could."""
    if isinstance(part, ast.FormattedValue):
        return SAMPLES.get(ast.unparse(part.value), "x")
    assert isinstance(part, ast.Constant)
    return str(part.value)


def texts() -> list[tuple[str, str]]:
    """Every string of the package, with its place."""
    return [
        (f"{path.relative_to(ROOT)}:{line}", text)
        for path in FILES
        for line, text in strings(ast.parse(path.read_text(encoding="utf-8")))
    ]


TEXTS = texts()


def console_lines() -> list[tuple[str, str]]:
    """The commands in the documents' blocks. A line may go on in the next; of `[--as a|b]` the first form counts."""
    found = []
    for path in PAGES:
        for block in re.findall(r"^```\w*\n(.*?)^```", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
            lines = re.sub(r"\\\n|[\[\]]|\|\w+", " ", block).splitlines()
            commands = [line.removeprefix("$ ").partition(" | ")[0] for line in lines]
            found += [(path.name, command) for command in commands if re.match(rf"semel (?:{NAMES})\b", command)]
    return found


def commands_in(text: str) -> list[str]:
    return [found.strip().rstrip(".") for found in COMMAND.findall(text)]


def complaint(command: str) -> str:
    """What the real parser has against it; empty when it takes it."""
    try:
        words = shlex.split(command, comments=True)
    except ValueError as error:
        return str(error)
    named, rest = find_command(COMMANDS, words[1:])
    if not rest or rest == ["…"]:
        return ""  # its name
    try:
        options = parser_of(named).parse_args(rest)
        if words[1] == "explain":
            for name in options.name:
                explain(name)
    except SystemExit as end:
        return "is refused" if end.code else ""  # --help ends well
    except ConfigError as error:
        return error.summary
    return ""


def test_every_command_in_a_text_is_taken_by_the_real_parser(capsys: pytest.CaptureFixture[str]) -> None:
    found = [(place, command) for place, text in TEXTS for command in commands_in(text)]
    wrong = [f"{place}: {command!r} {complaint(command)}" for place, command in found if complaint(command)]
    assert not wrong, "\n".join([*wrong, capsys.readouterr().err])
    assert len(found) >= 15


def test_every_command_in_the_documents_is_taken_by_the_real_parser(capsys: pytest.CaptureFixture[str]) -> None:
    found = console_lines()
    wrong = [f"{place}: {command!r} {complaint(command)}" for place, command in found if complaint(command)]
    assert not wrong, "\n".join([*wrong, capsys.readouterr().err])
    assert len(found) >= 15


@pytest.mark.parametrize("name", ["orders", "-odd", "two words", "--help"])
def test_the_pipeline_commands_of_errors_are_taken(name: str) -> None:
    commands = [
        status_command(name, "a:1,b:2", "/check points/x"),
        reset_command(name, "a:1", "/check points/x"),
        repair_command(name, "a:1"),
    ]
    for command in commands:
        options = parser_of(BY_NAME["pipeline"]).parse_args(shlex.split(command)[2:])
        assert options.name == name


def test_every_rule_that_a_text_names_exists() -> None:
    known = {rule.id for rule in RULES}
    named = {(place, rule) for place, text in TEXTS for rule in re.findall(r"\bS\d{3}\b", text)}
    named |= {
        (path.name, rule) for path in PAGES for rule in re.findall(r"\bS\d{3}\b", path.read_text(encoding="utf-8"))
    }
    assert [(place, rule) for place, rule in sorted(named) if rule not in known] == []


def test_every_make_target_that_a_text_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {
        (place, target)
        for place, text in TEXTS
        for target in re.findall(r"(?:`make |\bmake (?=[a-z]+-))([a-z-]+)", text)
    }
    named |= {
        (path.name, target)
        for path in PAGES
        for target in re.findall(r"`make ([a-z-]+)", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [(place, target) for place, target in sorted(named) if target not in targets] == []


def test_every_method_that_a_text_names_exists() -> None:
    called = re.compile(rf"\b({'|'.join(OWNERS)})\.(\w+)\(")
    named = {(place, *call) for place, text in TEXTS for call in called.findall(text)}
    assert named
    missing = [
        (place, f"{one}.{method}") for place, one, method in named for cls in OWNERS[one] if not hasattr(cls, method)
    ]
    assert missing == []


@pytest.mark.parametrize(
    "command", ["semel explain S999", "semel explain", "semel pipeline", "semel cluster halt", "semel check --topik x"]
)
def test_a_command_that_does_not_exist_would_be_seen(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    is_a_name = len(command.split()) == 2
    assert bool(complaint(command)) is not is_a_name
    capsys.readouterr()
