"""Measure how a stranger reads the code: how many files, how full, how much is said in comments, how much is cut up."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from tests.tidy.measure import parse

SHORT_LINES = 40
DIRECTIVE = re.compile(r"#\s*(noqa|type:|pragma)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The figures of a whole package."""

    modules: int
    median_lines: float
    short_modules: int
    comments_per_100_lines: float
    private_called_once: float

    def complain(self, bound: Reading) -> list[str]:
        """What has become harder to read than this."""
        worse = {
            "lines of the median module": self.median_lines < bound.median_lines,
            "share of modules below 40 lines": self.short_modules / self.modules > bound.short_modules / bound.modules,
            "comments in 100 lines": self.comments_per_100_lines < bound.comments_per_100_lines,
            "private functions called once": self.private_called_once > bound.private_called_once,
        }
        return [f"{what}: {self} is worse than {bound}" for what, is_worse in worse.items() if is_worse]

    def __str__(self) -> str:
        """Write as one line."""
        return (
            f"{self.modules} modules, median {self.median_lines:g} lines, {self.short_modules} below {SHORT_LINES}, "
            f"{self.comments_per_100_lines:.1f} comments in 100 lines, "
            f"{self.private_called_once:.0%} of private functions called once"
        )


def measure_reading(sources: Iterable[str]) -> Reading:
    """Measure these files; those that only hold a docstring do not count."""
    lines, comments, once, private = list[int](), 0, 0, 0
    for source in sources:
        tree = parse(source)
        if len(tree.body) < 2:
            continue
        lines.append(len(source.splitlines()))
        comments += _count_comments(source)
        used = _used(tree)
        names = _private_functions(tree)
        private += len(names)
        once += sum(used[name] == 1 for name in names)
    return Reading(
        modules=len(lines),
        median_lines=median(lines),
        short_modules=sum(one < SHORT_LINES for one in lines),
        comments_per_100_lines=100 * comments / sum(lines),
        private_called_once=once / max(private, 1),
    )


def _count_comments(source: str) -> int:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return sum(one.type == tokenize.COMMENT and not DIRECTIVE.match(one.string) for one in tokens)


def _used(tree: ast.Module) -> Counter[str]:
    names = (one.id for one in ast.walk(tree) if isinstance(one, ast.Name))
    attributes = (one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute))
    return Counter([*names, *attributes])


def _private_functions(tree: ast.Module) -> list[str]:
    functions = [one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in functions if name.startswith("_") and not name.startswith("__")]
