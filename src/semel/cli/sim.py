"""`semel sim`: the whole cluster in virtual time, under faults that follow from a seed, judged by the laws."""

import argparse
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import NoReturn

from semel.cli.exit_code import ExitCode
from semel.cli.output import Colour, Format, add_format, narrate, paint, print_json, render_table
from semel.errors import ConfigError
from semel.history import Inject, Op, Replica, Verdict
from semel.sim.run import SimResult, run_seed
from semel.sim.summary import (
    Summary,
    describe_breaches,
    run_many,
    runs_here,
    summarize,
    verdict_together,
    weighed_together,
)

SCHEMA = 1
# What fits into a column of 64 bits, wherever results are kept.
SEED_MAX = 2**63 - 1
JOBS_MAX = 256
BREACHES_SHOWN = 10
COLOURS = {Verdict.HELD: Colour.GREEN, Verdict.BROKEN: Colour.RED, Verdict.UNKNOWN: Colour.YELLOW}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="run this one seed and tell what happened")
    which.add_argument("--seeds", type=int, metavar="COUNT", help="run this many seeds (default: 100)")
    parser.add_argument("--first", type=int, default=1, metavar="SEED", help="the first of them (default: 1)")
    cores = min(os.cpu_count() or 1, JOBS_MAX)
    parser.add_argument(
        "--jobs", type=int, default=cores, metavar="COUNT", help="processes to run them in (default: one for each core)"
    )
    parser.add_argument("--ops", action="store_true", help="with --seed: every op, not only the faults")
    add_format(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Run one seed or many."""
    _check(options)
    if options.seed is not None:
        return _run_one(options)
    return _run_many(options)


def _check(options: argparse.Namespace) -> None:
    count = 100 if options.seeds is None else options.seeds
    first = options.first if options.seed is None else options.seed
    if count < 1:
        raise ConfigError("there is nothing to run", you_wrote=f"--seeds {count}", you_want="--seeds 1 or more")
    if not 0 <= first <= SEED_MAX - count:
        raise ConfigError(f"{first} is no seed", you_want=f"a whole number from 0 to {SEED_MAX}")
    if not 1 <= options.jobs <= JOBS_MAX:
        raise ConfigError(f"--jobs {options.jobs} cannot be used", you_want=f"1 to {JOBS_MAX}")


def _run_one(options: argparse.Namespace) -> ExitCode:
    with _ended_by_interruption(lambda: f"seed {options.seed} was interrupted"):
        result = run_seed(options.seed)
    if options.format == Format.JSON:
        print_json({"schema": SCHEMA, "verdict": result.verdict.value, "seeds": [_as_json(summarize(result))]})
    else:
        print("\n".join(_tell(result, every_op=options.ops)))
    return ExitCode[result.verdict.name]


def _tell(result: SimResult, *, every_op: bool) -> Iterator[str]:
    yield f"seed {result.options.seed}: {result.options}"
    yield ""
    for op in result.history:
        if isinstance(op.act, Inject) or (every_op and not isinstance(op.act, Replica)):
            yield _told(op)
    counts = Counter((type(op.act).__name__, op.outcome.value) for op in result.history)
    yield ""
    yield render_table(["op", "outcome", "count"], [[*key, str(count)] for key, count in sorted(counts.items())])
    yield ""
    rows = [[found.law, str(found.weighed), found.verdict.value] for found in result.judgements]
    yield render_table(["law", "weighed", "verdict"], rows)
    yield ""
    yield from _tell_breaches(list(describe_breaches(result.judgements)))
    if result.stuck:
        yield f"stuck: {result.stuck}"
    yield f"history {result.digest}, {len(result.history)} ops, {result.faults_fired} faults"
    yield paint(result.verdict.value, COLOURS[result.verdict], sys.stdout)


def _told(op: Op) -> str:
    if isinstance(op.act, Inject):
        return f"{op.at_ms:>7} ms  {op.act.text}"
    return f"{op.at_ms:>7} ms  {op.client} {op.outcome.value} {op.act} {op.error}".rstrip()


def _tell_breaches(breaches: Sequence[str]) -> Iterator[str]:
    yield from (f"  {breach}" for breach in breaches[:BREACHES_SHOWN])
    if len(breaches) > BREACHES_SHOWN:
        yield f"  and {len(breaches) - BREACHES_SHOWN} more"


def _run_many(options: argparse.Namespace) -> ExitCode:
    seeds = range(options.first, options.first + (100 if options.seeds is None else options.seeds))
    began = time.perf_counter()
    summaries: list[Summary] = []
    # Where workers run the seeds this process only waits for them, and Ctrl-C is an exception as everywhere.
    here = _ended_by_interruption(lambda: _interrupted(summaries, len(seeds)))
    with here if runs_here(seeds, jobs=options.jobs) else nullcontext():
        try:
            summaries.extend(_with_progress(run_many(seeds, jobs=options.jobs), len(seeds)))
        except KeyboardInterrupt:
            narrate(_interrupted(summaries, len(seeds)))
            raise
    verdict = verdict_together(summaries)
    if options.format == Format.JSON:
        print_json(
            {
                "schema": SCHEMA,
                "verdict": verdict.value,
                "laws": weighed_together(summaries),
                "seeds": [_as_json(one) for one in summaries],
            }
        )
    else:
        print("\n".join(_tell_many(summaries, verdict)))
    narrate(f"{len(seeds)} seeds in {time.perf_counter() - began:.1f} s")
    return ExitCode[verdict.name]


def _interrupted(summaries: Sequence[Summary], total: int) -> str:
    counts = Counter(one.verdict.value for one in summaries)
    by_verdict = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return f"\ninterrupted after {len(summaries)} of {total} seeds" + (f": {by_verdict}" if by_verdict else "")


@contextmanager
def _ended_by_interruption(last_words: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C end the process at once, while a simulation runs in it.

    Why: the exception would strike in the middle of some task of the virtual loop, which tells on stderr what became of
    it and of the others. Nothing has to be closed in order: disk and network are virtual.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> NoReturn:
        narrate(last_words())
        os._exit(ExitCode.INTERRUPTED)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _with_progress(summaries: Iterable[Summary], total: int) -> Iterator[Summary]:
    """A counter on a terminal; elsewhere only the seeds that did not hold."""
    on_terminal = sys.stderr.isatty()
    start = "\r" if on_terminal else ""
    for count, one in enumerate(summaries, 1):
        if one.verdict is not Verdict.HELD:
            narrate(f"{start}seed {one.seed}: {one.verdict.value}; replay: {one.replay_command}")
        if on_terminal:
            print(f"\r{count} of {total} seeds", end="\n" if count == total else "", file=sys.stderr, flush=True)
        yield one


def _tell_many(summaries: Sequence[Summary], verdict: Verdict) -> Iterator[str]:
    for one in summaries:
        if one.verdict is not Verdict.HELD:
            yield f"seed {one.seed}: {one.verdict.value}"
            yield from _tell_breaches([*one.breaches, *([f"stuck: {one.stuck}"] if one.stuck else [])])
            yield f"  replay      {one.replay_command}"
    weighed = weighed_together(summaries)
    yield render_table(["law", "weighed"], [[law, str(count)] for law, count in weighed.items()])
    yield ""
    counts = Counter(one.verdict.value for one in summaries)
    ops, faults = sum(one.ops for one in summaries), sum(one.faults_fired for one in summaries)
    by_verdict = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    yield f"{len(summaries)} seeds: {by_verdict}; {ops} ops, {faults} faults"
    yield paint(verdict.value, COLOURS[verdict], sys.stdout)


def _as_json(one: Summary) -> dict[str, object]:
    return {
        "seed": one.seed,
        "verdict": one.verdict.value,
        "digest": one.digest,
        "ops": one.ops,
        "faults_fired": one.faults_fired,
        "breaches": list(one.breaches),
        "stuck": one.stuck,
        "replay_command": one.replay_command,
    }
