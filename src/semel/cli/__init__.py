"""The `semel` command.

The table below is the whole list of commands. A command's module is imported only when that command runs, so
`semel --help` and `semel --version` answer at once. Such a module has two functions:

    configure(parser)           adds the command's options
    run(options) -> ExitCode    does the work: data on stdout, narration on stderr
"""

import sys
from collections.abc import Sequence

from semel.cli.shell import Command, run_guarded

COMMANDS = (
    Command("audit", "semel.cli.audit", "count what was lost, doubled, altered or reordered between two places"),
    Command("check", "semel.cli.check", "look for settings that break a guarantee, in a cluster and in files"),
    Command("cluster", "semel.cli.cluster", "start, list and stop Kafka clusters on this machine"),
    Command("demo", "semel.cli.demo", "kill a pipeline in the middle and count what came out"),
    Command("doctor", "semel.cli.doctor", "look for what semel needs on this machine and say what to do"),
    Command("drill", "semel.cli.drill", "break a rule, a guarantee or your own program on purpose, and count"),
    Command("drill replay", "semel.cli.drill_replay", "strike a streaming query where it hurts and audit its output"),
    Command("pipeline", "semel.cli.pipeline", "show where a pipeline stands, reset or repair it, or give its name up"),
    Command("sim", "semel.cli.sim", "run the cluster in virtual time under seeded faults and judge what clients saw"),
    Command("explain", "semel.cli.explain", "say what a rule, an invariant, an error or a Kafka error code means"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return run_guarded(COMMANDS, arguments)
