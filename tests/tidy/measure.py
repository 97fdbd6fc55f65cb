"""Measure Python source: how long files and functions are, what is annotated, what is documented.

A function's length is its span without decorators and docstring. A file's length is its number of lines.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles
from typing import NamedTuple

LONG_LINES = 70

type_of_function = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """One function, method or nested function."""

    name: str
    lines: int
    annotated: bool


class Module(NamedTuple):
    """One file."""

    name: str
    lines: int
    documented: bool
    functions: tuple[Function, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """semel's row in the table of projects."""

    median_file: float
    median_function: float
    p90_function: float
    long_share: float
    annotated_share: float
    documented_share: float

    def __str__(self) -> str:
        """Render as that table's line."""
        return (
            f"| **semel** | {self.median_file:g} | {self.median_function:g} | {self.p90_function:g} "
            f"| {self.long_share:.1%} | {self.annotated_share:.1%} | {self.documented_share:.0%} |"
        )


def parse(source: str) -> ast.Module:
    """Parse once more where the interpreter tripped over itself.

    In Python 3.11 a traceback that is written at the same moment parses too, and the two count their depth in one
    number: SystemError, "AST constructor recursion depth mismatch".
    """
    try:
        return ast.parse(source)
    except SystemError:
        return ast.parse(source)


def measure_module(name: str, source: str) -> Module:
    """Measure one file's text."""
    tree = parse(source)
    return Module(
        name=name,
        lines=len(source.splitlines()),
        documented=ast.get_docstring(tree) is not None,
        functions=tuple(_functions(tree, name)),
    )


def measure_row(modules: Iterable[Module]) -> Row:
    """Sum up a project; modules that only hold a docstring do not count as files."""
    modules = list(modules)
    functions = [function for module in modules for function in module.functions]
    lengths = [function.lines for function in functions]
    return Row(
        median_file=median(module.lines for module in modules if module.functions or module.lines > 20),
        median_function=median(lengths),
        p90_function=quantiles(lengths, n=10, method="inclusive")[-1],
        long_share=sum(lines > LONG_LINES for lines in lengths) / len(lengths),
        annotated_share=sum(function.annotated for function in functions) / len(functions),
        documented_share=sum(module.documented for module in modules) / len(modules),
    )


def complain_about_row(row: Row) -> list[str]:
    """Compare with the numbers to beat."""
    limits = (
        (row.median_file <= 150, f"median file has {row.median_file:g} lines, over 150"),
        (row.median_function <= 10, f"median function has {row.median_function:g} lines, over 10"),
        (row.p90_function <= 30, f"one function in ten has more than {row.p90_function:g} lines, over 30"),
        (row.long_share < 0.02, f"{row.long_share:.1%} of the functions are longer than 70 lines, not below 2 %"),
        (row.annotated_share == 1, f"only {row.annotated_share:.1%} of the functions are fully annotated"),
        (row.documented_share == 1, f"only {row.documented_share:.1%} of the modules open with a docstring"),
    )
    return [complaint for held, complaint in limits if not held]


def _functions(tree: ast.Module, name: str) -> Iterator[Function]:
    methods = {id(child) for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for child in node.body}
    for node in ast.walk(tree):
        if isinstance(node, type_of_function):
            yield Function(f"{name}:{node.name}", _length(node), _annotated(node, method=id(node) in methods))


def _length(node: type_of_function) -> int:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) is None:
        return lines
    return lines - ((first.end_lineno or first.lineno) - first.lineno + 1)


def _annotated(node: type_of_function, *, method: bool) -> bool:
    given = [*node.args.posonlyargs, *node.args.args]
    static = any(isinstance(mark, ast.Name) and mark.id == "staticmethod" for mark in node.decorator_list)
    if method and not static:
        given = given[1:]
    given += node.args.kwonlyargs
    given += [extra for extra in (node.args.vararg, node.args.kwarg) if extra]
    return node.returns is not None and all(argument.annotation for argument in given)
