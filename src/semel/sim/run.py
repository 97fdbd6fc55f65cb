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
from semel.sim.client import HEALED_MS_MAX, Activity
from semel.sim.faults import KINDS, Fault
from semel.sim.members import Member
from semel.sim.offsets import GroupWatch, Offsets
from semel.sim.options import BROKERS, Options, draw_options
from semel.sim.producers import IdempotentProducer, PlainProducer
from semel.sim.readers import ReadingClient
from semel.sim.stage import Stage
from semel.sim.transactions import Transactions
from semel.world.loop import VirtualLoop, run_virtual

# Often enough to see a replica that holds something wrong for a while, seldom enough not to slow the run.
LOOKS_MS = 3_000
WHOLE_MS = 100
# Virtual time. A run that has not ended by then is stuck.
RUN_MS_MAX = 600_000
# Steps of the loop: what goes round without the time moving is found by this one.
STEPS_MAX = 400_000
# With more faults at once three brokers would hardly ever do anything that could go wrong.
FAULTS_AT_ONCE_MAX = 3
FAULT_MS_MAX = 5_000


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
        # Laws that had nothing to judge do not count against a run.
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
        # Kept outside: after a run that got stuck its history is still there to be shown.
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
        # Without a kind it is a note, such as that a broker is back.
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
    writers, readers = _make_activities(stage)
    loop = asyncio.get_running_loop()
    at_work = {activity: loop.create_task(activity.run()) for activity in (*writers, *readers)}
    looks = loop.create_task(_look_inside_repeatedly(stage))
    await FaultRunner(stage).run()
    # Writers first. What they still write must be there when the readers read for the last time.
    await _finish({activity: at_work[activity] for activity in writers})
    await _await_replicas(stage)
    await _finish({activity: at_work[activity] for activity in readers})
    # Nobody works any more, so the last look sees what stays.
    looks.cancel()
    stage.look_inside()


class FaultRunner:
    """Lets the faults of one run come and go. A `semel.faults.Schedule` is written down before anything runs."""

    def __init__(self, stage: Stage) -> None:
        """Draw from a stream of its own, so that clients' draws do not move the faults."""
        self._stage = stage
        self._rng = stage.rng.fork("faults")
        self._clock = stage.worlds[0].clock
        self._active: list[tuple[float, Fault]] = []

    async def run(self) -> None:
        """Let faults come and go for as long as the seed says, then undo all that are left."""
        options = self._stage.options
        end_ms = self._clock.monotonic_ms() + options.faulty_ms
        while self._clock.monotonic_ms() < end_ms:
            await self._clock.sleep_ms(self._rng.uniform(options.fault_gap_ms / 3, options.fault_gap_ms))
            await self._undo(self._clock.monotonic_ms())
            if len(self._active) < FAULTS_AT_ONCE_MAX:
                kind = self._rng.choice(options.faults)
                fault = KINDS[kind](self._stage, self._rng, kind)
                # Before it strikes: if that fails, it is undone all the same.
                self._active.append((self._clock.monotonic_ms() + self._rng.integer(100, FAULT_MS_MAX), fault))
                await fault.inject()
        await self._undo(float("inf"))
        self._stage.tell("everything is healed")

    async def _undo(self, now_ms: float) -> None:
        over = [fault for end_ms, fault in self._active if end_ms <= now_ms]
        self._active = [(end_ms, fault) for end_ms, fault in self._active if end_ms > now_ms]
        for fault in over:
            await fault.undo()


def _make_activities(stage: Stage) -> tuple[list[Activity], list[Activity]]:
    """Who takes part: those who write, and those who read and must read last."""
    places = stage.places
    writers: list[Activity] = [
        IdempotentProducer(stage.client("idempotent-1"), places),
        PlainProducer(stage.client("plain-1"), places, acks=stage.options.acks),
        Offsets(stage.client("offsets-1"), "kept", places[0]),
    ]
    writers += [Member(stage.client(f"member-{number}"), "team", places) for number in (1, 2)]
    # Shared by the contenders, so that offsets only rise: one that goes back was committed by a fenced producer.
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


async def _look_inside_repeatedly(stage: Stage) -> None:
    while True:
        await stage.worlds[0].clock.sleep_ms(LOOKS_MS)
        stage.look_inside()
