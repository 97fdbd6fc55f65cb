"""`semel explain`: what a rule is about, what goes wrong without it, and the fault that shows it."""

from __future__ import annotations

import argparse

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, print_json, render_table
from semel.errors import ConfigError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("rule", nargs="*", metavar="RULE", help="such as S014")
    parser.add_argument("--list", action="store_true", help="every rule, one line each")
    parser.add_argument("--page", action="store_true", help="every rule, as the page docs/rules.md")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Print what was asked for."""
    from semel.check.explanation import as_data, as_page, as_text, guarantees_of
    from semel.check.rules import RULES, find_rule

    if not (options.rule or options.list or options.page):
        raise ConfigError("which rule?", you_want="semel explain S014, or semel explain --list")
    if options.page:
        print(as_page(RULES), end="")
        return ExitCode.HELD
    chosen = list(RULES) if options.list else [find_rule(text) for text in options.rule]
    if options.format == Format.JSON:
        print_json({"schema": 1, "rules": [as_data(rule) for rule in chosen]})
    elif options.list:
        rows = [[rule.id, rule.about, ", ".join(guarantees_of(rule)), rule.title] for rule in chosen]
        print(render_table(["rule", "about", "matters to", "title"], rows))
    else:
        print("\n\n".join(as_text(rule) for rule in chosen))
    return ExitCode.HELD
