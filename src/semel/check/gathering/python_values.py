"""What an expression of a Python file is worth, found without running it.

Texts, numbers, dicts of them, and names for these are read. Whatever depends on more than the file itself (environment
variables, arguments, functions) is `Computed`, with the line and without the expression: it may hold a password.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from operator import add, mul, sub

from semel.clients.setting_names import Computed

NUMBER_MAX = 2**63
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], float]] = {ast.Add: add, ast.Sub: sub, ast.Mult: mul}
TEXT_LENGTH_MAX = 10_000
COPYING = ("copy", "deepcopy", "copy.copy", "copy.deepcopy")
# confluent-kafka takes the settings of topics in a dict of their own, too.
NESTED = "default.topic.config"


_serials = count()


@dataclass(slots=True, kw_only=True)
class DictValue:
    """A dict as far as it is known: values and lines by name; `elsewhere` says why there may be more in it.

    `made_of` has the serial numbers of this dict and of those whose entries it took over.
    """

    line: int
    values: dict[str, object] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    elsewhere: str = ""
    serial: int = field(default_factory=lambda: next(_serials))
    made_of: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Every dict is made of itself, too."""
        self.made_of = {*self.made_of, self.serial}

    def copy(self) -> DictValue:
        """The same entries, free to change."""
        return replace(self, values=dict(self.values), lines=dict(self.lines), serial=next(_serials))

    def put(self, name: str, value: object, line: int) -> None:
        """Set one entry."""
        self.values[name], self.lines[name] = value, line

    def take_in(self, other: object, line: int) -> None:
        """Update from another dict; one that is not known may have replaced every entry so far."""
        if isinstance(other, DictValue):
            # What is not known in the other dict may hide any of the names that were set before.
            if other.elsewhere:
                self.lose_track(other.elsewhere)
            self.values |= other.values
            self.lines |= other.lines
            self.made_of |= other.made_of
        else:
            self.lose_track(f"line {line} adds settings that the file does not show")

    def lose_track(self, why: str) -> None:
        """From here on anything may be in it."""
        self.elsewhere = why
        self.values = dict.fromkeys(self.values, Computed(f"perhaps replaced: {why}"))


Names = dict[str, object]


def dotted(node: ast.expr) -> str:
    """`self.conf` for a name with attributes; empty for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=inner, attr=name):
            before = dotted(inner)
            return f"{before}.{name}" if before else ""
        case _:
            return ""


def value_of(node: ast.expr, names: Names) -> object:
    """A text, number, yes or no, None, DictValue, or Computed."""
    computed = Computed(f"computed at line {node.lineno}")
    match node:
        case ast.Constant(value=str() | int() | float() | None as value):
            return value
        case ast.Name() | ast.Attribute():
            return names.get(dotted(node), computed)
        case ast.Dict():
            return _dict_of(node, names)
        case ast.Call():
            return _called(node, names, computed)
        case _:
            return _put_together(node, names, computed)


def _put_together(node: ast.expr, names: Names, computed: Computed) -> object:
    """A value that is made of others by operators."""
    match node:
        case ast.JoinedStr():
            return _formatted(node, names, computed)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            number = value_of(inner, names)
            return -number if isinstance(number, int | float) else computed
        case ast.BinOp(left=left, op=operator, right=right):
            return _combined(value_of(left, names), operator, value_of(right, names), computed)
        case ast.Subscript(value=inner, slice=key):
            return _entry(value_of(inner, names), value_of(key, names), computed)
        case _:
            return computed


def _dict_of(node: ast.Dict, names: Names) -> DictValue:
    made = DictValue(line=node.lineno)
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            made.take_in(value_of(value, names), value.lineno)
            continue
        name, found = value_of(key, names), value_of(value, names)
        # librdkafka applies these to every topic, so they count as settings of the client itself.
        if name == NESTED and isinstance(found, DictValue):
            made.take_in(found, value.lineno)
        elif isinstance(name, str):
            made.put(name, found, key.lineno)
        else:
            made.lose_track(f"line {key.lineno} has a name that the file does not show")
    return made


def _formatted(node: ast.JoinedStr, names: Names, computed: Computed) -> object:
    parts = [value_of(part.value if isinstance(part, ast.FormattedValue) else part, names) for part in node.values]
    plain = all(isinstance(part, str | int) for part in parts)
    if plain and not any(isinstance(part, ast.FormattedValue) and part.format_spec for part in node.values):
        return "".join(map(str, parts))
    # Not known, but not empty: enough for a rule that only asks whether, say, a transactional id is set.
    return replace(computed, filled=any(isinstance(part, ast.Constant) and part.value for part in node.values))


def _combined(left: object, operator: ast.operator, right: object, computed: Computed) -> object:
    if isinstance(left, DictValue) and isinstance(operator, ast.BitOr):
        both = left.copy()
        both.take_in(right, left.line)
        return both
    # A text that is added to itself line after line would soon fill the memory.
    if isinstance(operator, ast.Add) and (isinstance(left, str) or isinstance(right, str)):
        if isinstance(left, str) and isinstance(right, str) and len(left) + len(right) < TEXT_LENGTH_MAX:
            return left + right
        return replace(computed, filled=bool(left if isinstance(left, str) else right))
    if isinstance(left, int | float) and isinstance(right, int | float) and type(operator) in ARITHMETIC:
        total = ARITHMETIC[type(operator)](left, right)
        return total if abs(total) < NUMBER_MAX else computed
    return computed


def _entry(owner: object, key: object, computed: Computed) -> object:
    # Even an entry that was seen may have been replaced by what was not.
    if isinstance(owner, DictValue) and isinstance(key, str) and not owner.elsewhere:
        return owner.values.get(key, computed)
    return computed


def _called(node: ast.Call, names: Names, computed: Computed) -> object:
    """`dict(…)`, copies, and `str(…)` or `int(…)` of a plain value; any other call is not followed."""
    match node:
        case ast.Call(func=ast.Name(id="dict")):
            return dict_of_arguments(node, node.args, names)
        case ast.Call(func=ast.Attribute(value=inner, attr="copy"), args=[]):
            return _copied(value_of(inner, names), computed)
        case ast.Call(func=function, args=[inner]) if dotted(function) in COPYING:
            return _copied(value_of(inner, names), computed)
        case ast.Call(func=ast.Name(id="str" | "int" | "bool"), args=[inner]):
            plain = value_of(inner, names)
            return plain if isinstance(plain, str | int) and not isinstance(plain, bool) else computed
        case _:
            return computed


def _copied(owner: object, computed: Computed) -> object:
    return owner.copy() if isinstance(owner, DictValue) else computed


def dict_of_arguments(node: ast.Call, dicts: list[ast.expr], names: Names) -> DictValue:
    """The dict that a call makes of its first arguments and of its keywords, in the order in which they count."""
    made = DictValue(line=node.lineno)
    for each in dicts:
        made.take_in(value_of(each, names), each.lineno)
    for keyword in node.keywords:
        found = value_of(keyword.value, names)
        if keyword.arg is None:
            made.take_in(found, keyword.value.lineno)
        else:
            made.put(keyword.arg, found, keyword.value.lineno)
    return made


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls of a statement, but none of a function or class inside it."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.stmt):
            continue
        yield from calls_in(inner)
    if isinstance(node, ast.Call):
        yield node
