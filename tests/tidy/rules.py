"""The rules about words, as pure functions from text to complaints, so that each can be shown to bite.

Why: the patterns write a dot as `[.]` and the like, so that this file does not break its own rules.
"""

import ast
import re
from collections.abc import Iterator

from tests.tidy.measure import parse

# A word inside a defined name, and what to write instead.
BANNED_WORDS = {
    "chaos": "fault",
    "checker": "law or rule",
    "handle": "the verb for what happens: decode, append, answer, serve",
    "handler": "the verb for what happens: decode, append, answer, serve",
    "helper": "what it does",
    "helpers": "what they do",
    "journal": "ledger",
    "manager": "what it keeps: state, log, coordinator",
    "misc": "what it is about",
    "nemesis": "schedule",
    "qos": "guarantee",
    "semantics": "guarantee",
    "util": "what it is about",
    "utils": "what it is about",
}

# Nondeterminism enters through semel.world only, so that one seed gives one history.
BANNED_CALLS = {
    "asyncio.sleep": "Clock.sleep_ms",
    "random": "Rng",
    "time.time": "Clock.wall_ms",
    "time.time_ns": "Clock.wall_ms",
}
BANNED_IN_SIMULATED_CODE = {
    "datetime.datetime.now": "Clock.wall_ms",
    "datetime.datetime.utcnow": "Clock.wall_ms",
    "os.urandom": "Rng.token_bytes",
    "secrets": "Rng.token_bytes",
    "time.monotonic": "Clock.monotonic_ms",
    "time.monotonic_ns": "Clock.monotonic_ms",
    "time.perf_counter": "Clock.monotonic_ms",
    "time.sleep": "Clock.sleep_ms",
    "uuid.uuid1": "Rng.uuid",
    "uuid.uuid4": "Rng.uuid",
}

REGISTRY = re.compile(
    r"(pypi|npmjs|yarnpkg|crates|rubygems|anaconda)[.](org|com|io)"
    r"|pythonhosted[.]org|maven(-central)?[.](org|apache|google)|repo1[.]maven|repo[.]maven|sonatype[.]|j[c]enter|[a]rtifactory",
    re.IGNORECASE,
)
PRIVATE_PATH = re.compile(
    r"(?<![\w.~$}{/)-])/(root|work|home/[a-z]\w*|Users/[A-Za-z]\w*)(?=[/\s\"'`),:]|$)", re.MULTILINE
)
HOW_IT_WAS_MADE = re.compile(
    r"(?i:\b(language[ ]model|chat[ -]?bot|sub-?agents?|coding[ ]agents?|co-authored[-]by|as[ ]an[ ]ai"
    r"|ai[- ]generated|[c]opilot|[l]lms?)\b)|\b([T]ODO|[F]IXME)\b"
)
ISSUE_NUMBER = re.compile(r"(?<![\w&/#])#\d{1,5}\b(?![-\w])|\bissue[ ]\d+", re.IGNORECASE)


def complain_about_names(path: str, source: str) -> Iterator[str]:
    """Look at every name that a module defines, and at its own."""
    names = [part.removesuffix(".py") for part in path.split("/")]
    names += [node.name for node in ast.walk(parse(source)) if isinstance(node, _DEFINITIONS)]
    for name in names:
        for word in _words(name):
            if word in BANNED_WORDS:
                yield f"{path}: {name}: not {word!r}, say {BANNED_WORDS[word]}"


def complain_about_flags(path: str, source: str) -> Iterator[str]:
    """A guarantee is passed whole, never as a flag."""
    for node in ast.walk(parse(source)):
        name = node.arg if isinstance(node, ast.arg) else getattr(getattr(node, "target", None), "id", None)
        annotation = getattr(node, "annotation", None)
        if name in {"exactly_once", "at_least_once", "at_most_once"} and getattr(annotation, "id", "") == "bool":
            yield f"{path}: {name}: bool is half a guarantee, pass a Guarantee"


def complain_about_calls(path: str, source: str, banned: dict[str, str]) -> Iterator[str]:
    """Look for uses of what only `semel.world` may touch, however it was imported."""
    tree = parse(source)
    origins = dict(_imports(tree))
    used = [
        (node.lineno, _dotted(node, origins)) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)
    ]
    for line, dotted in sorted(set(used)):
        for name, replacement in banned.items():
            if dotted == name or dotted.startswith(f"{name}."):
                yield f"{path}:{line}: {dotted}: take it from the world: {replacement}"


def complain_about_text(path: str, text: str) -> Iterator[str]:
    """Look for what has no place in any file, whatever its kind."""
    kinds = (("registry address", REGISTRY), ("private path", PRIVATE_PATH), ("aside", HOW_IT_WAS_MADE))
    for kind, pattern in kinds:
        for match in pattern.finditer(text):
            yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {kind}: {match.group().strip()}"


def complain_about_issue_numbers(path: str, text: str) -> Iterator[str]:
    """A reason belongs into the text; a number is one only for those who can look it up."""
    for match in ISSUE_NUMBER.finditer(text):
        yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: issue number: {match.group().strip()}"


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _words(name: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each imported name and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.split(".")[0],
                    alias.name if alias.asname else alias.name.split(".")[0],
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield (alias.asname or alias.name, f"{node.module}.{alias.name}")


def _dotted(node: ast.expr, origins: dict[str, str]) -> str:
    """Write an attribute chain out in full; empty when it does not start at an import."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, "")
    if isinstance(node, ast.Attribute) and (base := _dotted(node.value, origins)):
        return f"{base}.{node.attr}"
    return ""


def complain_about_runtime_imports(path: str, source: str, module: str) -> list[str]:
    """Imports of a module that are carried out, and not only read by the type checker."""
    tree = ast.parse(source)
    for_types = {
        id(inner)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for inner in ast.walk(block)
    }
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == module and id(node) not in for_types
    ]
    return [
        f"{path}:{node.lineno} imports {module} where it runs; annotations need it under TYPE_CHECKING"
        for node in found
    ]
