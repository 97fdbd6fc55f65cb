"""`semel explain`: what a rule, an invariant, an error class or a Kafka error code means. With no name: a list."""

from __future__ import annotations

import argparse

from semel.cli.exit_code import ExitCode
from semel.cli.output import Format, add_format, narrate, print_json, render_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "name",
        nargs="*",
        metavar="NAME",
        help="such as S014, E9, FencedError, PRODUCER_FENCED or code=90; none: a list",
    )
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Print what was asked for."""
    from semel.check.explanation import Kind, explain, explain_error, explain_invariant, explain_rule
    from semel.check.invariants import invariants
    from semel.check.known_errors import error_classes
    from semel.check.rules import RULES

    if options.name:
        chosen = [explain(name) for name in options.name]
    else:
        chosen = [
            *map(explain_rule, RULES),
            *map(explain_invariant, invariants()),
            *map(explain_error, error_classes()),
        ]
    if options.format == Format.JSON:
        print_json({"schema": 1, **{kind.value: [one.data for one in chosen if one.kind is kind] for kind in Kind}})
    elif options.name:
        print("\n\n".join(one.text for one in chosen))
    else:
        _print_list()
    return ExitCode.HELD


def _print_list() -> None:
    from semel.check.explanation import guarantees_of, meaning_of
    from semel.check.invariants import invariants
    from semel.check.known_errors import error_classes
    from semel.check.rules import RULES

    rows = [[rule.id, rule.about, rule.severity, ", ".join(guarantees_of(rule)), rule.title] for rule in RULES]
    print(render_table(["rule", "about", "severity", "matters to", "title"], rows))
    kept = [[one.id, one.family, _first_sentence(one.text)] for one in invariants()]
    print("\n" + render_table(["invariant", "about", "what is always so"], kept))
    raised = [[cls.__name__, cls.outcome.value, meaning_of(cls)[0]] for cls in error_classes()]
    print("\n" + render_table(["error", "happened?", "meaning"], raised))
    narrate(
        "one of them: semel explain S014; Kafka's error codes too: semel explain PRODUCER_FENCED, semel explain code=90"
    )


def _first_sentence(text: str) -> str:
    return text.split(". ", maxsplit=1)[0].rstrip(".")
