"""One seed from start to verdict: clients work under faults, everything heals, everybody finishes, the laws judge."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from semel.history import Inject, Judgement, Op, Outcome, Settle, Verdict
from semel.history.laws import judge_all
from semel.history.view import acts
from semel.sim.activity import HEALED_MS_MAX, Activity
from semel.sim.members import Member
from semel.sim.offsets import GroupWatch, Offsets
from semel.sim.options import BROKERS, Options, draw_options
from semel.sim.producers import IdempotentProducer, PlainProducer
from semel.sim.readers import ReadingClient
from semel.sim.schedule import Schedule
from semel.sim.stage import Stage
from semel.sim.transactions import Transactions
from semel.world.loop import VirtualLoop, run_virtual

LOOKS_MS = 3_000
WHOLE_MS = 100
RUN_MS_MAX = 600_000
STEPS_MAX = 400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimResult:
    """What one seed showed."""

    options: Options
    history: Sequence[Op]
    digest: str
    judgements: Sequence[Judgement]
    faults_fired: int
    stuck: str = ""

    @property
    def verdict(self) -> Verdict:
        """A run that got stuck, or that no fault struck, has shown nothing."""
        verdicts: list[Verdict] = [found.verdict for found in self.judgements if found.verdict is not Verdict.UNKNOWN]
        if not self.faults_fired:
            verdicts.append(Verdict.UNKNOWN)
        return Verdict.worst(verdicts)


def run_seed(seed: int) -> SimResult:
    """Run one seed in virtual time and judge it."""
    options = draw_options(seed)
    stages: list[Stage] = []
    stuck = ""

    async def main(loop: VirtualLoop) -> None:
        stages.append(Stage(loop, options, brokers=BROKERS))
        await _play(stages[0])

    try:
        with quiet_logs():
            run_virtual(seed, main, virtual_ms_max=RUN_MS_MAX, steps_max=STEPS_MAX)
    except Exception as error:  # noqa: BLE001 - whatever it is, this seed has shown nothing and the next one may run
        stuck = f"{type(error).__name__}: {error}"
    recorder = stages[0].recorder
    return SimResult(
        options=options,
        history=recorder.ops,
        digest=recorder.digest(),
        judgements=[] if stuck else judge_all(recorder.ops),  # ops under way are not in the history
        faults_fired=sum(1 for _, inject in acts(recorder.ops, Inject) if inject.kind),
        stuck=stuck,
    )


@contextmanager
def quiet_logs() -> Iterator[None]:
    """Brokers that are killed and cut off complain by the thousand; what they did is in the history."""
    logs = [logging.getLogger(name) for name in ("semel", "asyncio")]
    before = [log.level for log in logs]
    for log in logs:
        log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for log, level in zip(logs, before, strict=True):
            log.setLevel(level)


async def _play(stage: Stage) -> None:
    await stage.start()
    writers, readers = _cast(stage)
    loop = asyncio.get_running_loop()
    at_work = {activity: loop.create_task(activity.run()) for activity in (*writers, *readers)}
    looks = loop.create_task(_look_again_and_again(stage))
    await Schedule(stage).run()
    await _finish({activity: at_work[activity] for activity in writers})
    await _await_replicas(stage)
    await _finish({activity: at_work[activity] for activity in readers})
    looks.cancel()
    stage.look_inside()


def _cast(stage: Stage) -> tuple[list[Activity], list[Activity]]:
    """Who takes part: those who write, and those who read and must read last."""
    places = stage.places
    writers: list[Activity] = [
        IdempotentProducer(stage.client("idempotent-1"), places),
        PlainProducer(stage.client("plain-1"), places, acks=stage.options.acks),
        Offsets(stage.client("offsets-1"), "kept", places[0]),
    ]
    writers += [Member(stage.client(f"member-{number}"), "team", places) for number in (1, 2)]
    offsets = itertools.count(1)
    for number in range(stage.options.contenders):
        client = stage.client(f"transactions-{number + 1}")
        writers.append(Transactions(client, places, "shared", take_offset=lambda: next(offsets)))
    readers: list[Activity] = [
        ReadingClient(stage.client("committed-1"), places, committed=True),
        ReadingClient(stage.client("uncommitted-1"), places, committed=False),
        GroupWatch(stage.client("watch-1"), "shared", places[0]),
        GroupWatch(stage.client("watch-2"), "team", places[0]),
    ]
    return writers, readers


async def _finish(at_work: dict[Activity, asyncio.Task[None]]) -> None:
    for activity in at_work:
        activity.stopping = True
    await asyncio.gather(*at_work.values())


async def _await_replicas(stage: Stage) -> None:
    """Before the last look: a new leader shows what was acknowledged when enough others have followed it."""
    invoked = stage.recorder.begin()
    clock = stage.worlds[0].clock
    deadline_ms = clock.monotonic_ms() + HEALED_MS_MAX
    while not stage.is_whole and clock.monotonic_ms() < deadline_ms:
        await clock.sleep_ms(WHOLE_MS)
    outcome = Outcome.OK if stage.is_whole else Outcome.FAILED
    stage.recorder.end("cluster", Settle(what="bring every replica in sync"), outcome, invoked)


async def _look_again_and_again(stage: Stage) -> None:
    while True:
        await stage.worlds[0].clock.sleep_ms(LOOKS_MS)
        stage.look_inside()
