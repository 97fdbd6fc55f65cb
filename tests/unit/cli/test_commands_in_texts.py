"""Whatever a text tells people to run exists: commands of semel, targets of make, rules, invariants, errors, methods.

Looked at are all strings of the package that are no docstrings, with something in place of what an f-string fills in,
and the console blocks of the documents.
"""

import argparse
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
# What is asked of Apache Kafka's commands in texts; tests/differential/test_kafka_commands.py asks the commands.
KAFKA_COMMANDS = {
    "kafka-configs": {"alter", "entity-type", "entity-name", "add-config"},
    "kafka-consumer-groups": {
        *("describe", "state", "delete", "group"),
        *("topic", "reset-offsets", "to-earliest", "execute"),
    },
    "kafka-reassign-partitions": set[str](),
    "kafka-topics": {"create", "topic", "partitions"},
    "kafka-transactions": {"topic", "partition", "start-offset"},
}
KAFKA_COMMAND = re.compile(r"\b(kafka-(?:configs|[a-z-]+s))(\.sh)?((?: (?!or )(?:--)?[\w{}'/%:.…-]+)*)")
# Options of others that semel starts or names: initdb, Java, Kafka's storage tool, pip, and the driver of `semel demo`.
OTHER_OPTIONS = {"pwfile", "no-sync", "encoding", "locale", "add-modules", "cluster-id", "upgrade"}
OTHER_OPTIONS |= {"stop-after", "orders-per-micro-batch"}
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


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The long options of a command and of its parts."""
    for action in parser._actions:
        yield from (name.removeprefix("--") for name in action.option_strings if name.startswith("--"))
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from options_of(part)


def test_every_option_that_a_text_names_exists() -> None:
    """Also in half a sentence of advice, where no command stands before it."""
    known = {option for command in COMMANDS for option in options_of(parser_of(command))} | {"version"}
    known |= {"bootstrap-server", "to-current"}.union(*KAFKA_COMMANDS.values()) | OTHER_OPTIONS
    named = {
        (place, option) for place, text in TEXTS for option in re.findall(r"(?<![\w-])--([a-z][a-z-]+)(?![\w{-])", text)
    }
    assert len(named) >= 100
    # `--map-{name}` has become `--map-x`.
    known |= {f"{option.rpartition('-')[0]}-x" for option in known}
    assert [(place, option) for place, option in sorted(named) if option not in known] == []


def kafka_commands(text: str) -> list[tuple[str, str, str]]:
    """The commands of Apache Kafka in a text: the name, its ending, what is asked of it."""
    return [found for found in KAFKA_COMMAND.findall(text) if found[1] or found[2].lstrip().startswith("-")]


def kafka_complaint(name: str, ending: str, rest: str) -> str:
    """What is wrong with a command of Apache Kafka's; its name alone is advice without a way to type it."""
    if name not in KAFKA_COMMANDS or not ending:
        return "is no command"
    asked = set(re.findall(r"--([a-z-]+)", rest))
    # `x` stands for what a rule knows of the cluster, which begins with the address.
    has_address = "bootstrap-server" in asked or rest.startswith(" x ")
    if asked and not has_address:
        return "does not say which cluster"
    return " ".join(sorted(asked - KAFKA_COMMANDS[name] - {"bootstrap-server"}))


def test_every_command_of_apache_kafka_in_a_text_can_be_typed() -> None:
    found = [(place, command) for place, text in TEXTS for command in kafka_commands(text)]
    wrong = [f"{place}: {command} {kafka_complaint(*command)}" for place, command in found if kafka_complaint(*command)]
    assert not wrong, "\n".join(wrong)
    assert {name for _, (name, _, _) in found} == set(KAFKA_COMMANDS)


@pytest.mark.parametrize(
    "text",
    [
        "kafka-topics --create --topic x",
        "kafka-topics.sh --create --topic x",
        "kafka-topics.sh --bootstrap-server x --make --topic x",
        "kafka-subjects.sh --bootstrap-server x",
    ],
)
def test_a_command_of_apache_kafka_that_does_not_run_would_be_seen(text: str) -> None:
    ((name, ending, rest),) = kafka_commands(text)
    assert kafka_complaint(name, ending, rest)


def test_nobody_is_told_to_install_a_name_that_is_not_published() -> None:
    """`install_command` knows how semel was installed; its three texts are the only ones."""
    named = {place.partition(":")[0] for place, text in TEXTS if re.search(r"pip install\b.*\bsemel\b", text)}
    assert named == set()


def test_every_page_that_a_text_names_exists() -> None:
    named = {(place, page) for place, text in TEXTS for page in re.findall(r"docs/[\w/-]+\.md", text)}
    assert named
    assert [(place, page) for place, page in sorted(named) if not (ROOT / page).is_file()] == []


def test_every_variable_that_a_text_says_to_set_is_read() -> None:
    """A name that is read stands alone in some string; one that only occurs in sentences is read by nobody."""
    read = {text for _, text in TEXTS}
    named = {(place, name) for place, text in TEXTS for name in re.findall(r"\bSEMEL_[A-Z_]+\b", text)}
    assert named
    assert [(place, name) for place, name in sorted(named) if name not in read] == []


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
