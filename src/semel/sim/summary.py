"""Many seeds: each run's result in few words, and what they show together."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import islice

from semel.history import Judgement, Verdict
from semel.sim.run import SimResult, run_seed

SEEDS_AT_ONCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is kept of one seed among many."""

    seed: int
    verdict: Verdict
    digest: str
    ops: int
    faults_fired: int
    stuck: str
    weighed: dict[str, int]
    breaches: tuple[str, ...]

    @property
    def replay_command(self) -> str:
        """What shows the whole of it again."""
        return f"semel sim --seed {self.seed}"


def summarize(result: SimResult) -> Summary:
    """Leave the history behind."""
    return Summary(
        seed=result.options.seed,
        verdict=result.verdict,
        digest=result.digest,
        ops=len(result.history),
        faults_fired=result.faults_fired,
        stuck=result.stuck,
        weighed={found.law: found.weighed for found in result.judgements},
        breaches=tuple(describe_breaches(result.judgements)),
    )


def describe_breaches(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Each breach with the law it broke."""
    for found in judgements:
        for breach in found.breaches:
            yield f"{found.law}: {breach}"


def run_many(seeds: Sequence[int], *, jobs: int) -> Iterator[Summary]:
    """Run seeds one after another, or in several processes; summaries come in the order of the seeds."""
    if runs_here(seeds, jobs=jobs):
        yield from map(_run_one, seeds)
        return
    # Not forked: a child would inherit the locks of threads that it does not have.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        chunks = iter([seeds[at : at + SEEDS_AT_ONCE] for at in range(0, len(seeds), SEEDS_AT_ONCE)])
        # Twice as many as workers: none of them waits, and little is given up by stopping early.
        under_way = deque(_submit(pool, chunk) for chunk in islice(chunks, 2 * jobs))
        try:
            while under_way:
                yield from under_way.popleft().result()
                under_way.extend(_submit(pool, chunk) for chunk in islice(chunks, 1))
        except BaseException:
            # Nobody wants the rest any more, and leaving this block would wait for it. Not `Future.cancel`: a pool
            # whose workers are gone fails at futures that were cancelled, and says so on stderr.
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


def _submit(pool: ProcessPoolExecutor, seeds: Sequence[int]) -> Future[list[Summary]]:
    """Ctrl-C reaches every process of a terminal. Workers, which may start here, have it blocked: this one answers."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        return pool.submit(_run_some, seeds)
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _run_some(seeds: Sequence[int]) -> list[Summary]:
    return list(map(_run_one, seeds))


def runs_here(seeds: Sequence[int], *, jobs: int) -> bool:
    """Whether these run in this process, one after another."""
    return jobs == 1 or len(seeds) <= SEEDS_AT_ONCE


def _run_one(seed: int) -> Summary:
    """Garbage is collected between seeds: one makes little, and looking for it all the time costs a twentieth."""
    gc.disable()
    try:
        return summarize(run_seed(seed))
    finally:
        gc.enable()


def weighed_together(summaries: Sequence[Summary]) -> dict[str, int]:
    """How much each law had to weigh over all seeds."""
    total: Counter[str] = Counter()
    for one in summaries:
        total.update(one.weighed)
    return dict(total)


def verdict_together(summaries: Sequence[Summary]) -> Verdict:
    """The worst of them; a law that never had anything to weigh leaves the whole unknown."""
    verdicts = [one.verdict for one in summaries]
    if not all(weighed_together(summaries).values()):
        verdicts.append(Verdict.UNKNOWN)
    return Verdict.worst(verdicts)
