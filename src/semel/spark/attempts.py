"""E1: only the first attempt of a task writes, and only in the first attempt of its stage.

A second attempt would write under the same producer id and epoch, again from sequence 0; brokers would take its batches
for retries of the first attempt's. So a task that is not the first attempt fails, and before the driver commits it
makes sure that no stage of the job ran twice. Either way the micro-batch is run again under a new producer epoch.

Why:   with `spark.speculation` a second attempt may also stand beside a first that is only slow. Were it to fail, Spark
       would start the next, and after four the job would be at its end. So it waits until Spark stops it, and it is
       the driver that ends the job when a task has really failed.
"""

from __future__ import annotations

import threading
import time
from itertools import count
from types import TracebackType
from typing import Any, Self

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkContext, TaskContext

from semel.errors import SinkError

# Spark writes its books in a thread of its own; much longer than this can only mean that it is stuck.
STATUS_WAIT_S_MAX = 10.0
POLL_S = 0.001
FAILURE_POLL_S = 0.2
# Longer than any first attempt should take. Spark stops the waiting one as soon as the first has ended.
SPECULATIVE_WAIT_S_MAX = 900.0
SPECULATION = "spark.speculation"
# A local property of the driver's thread: Spark hands it to the tasks of its jobs.
SECOND_ATTEMPTS_WAIT = "semel.second.attempts.wait"
_watches = count()


class SecondAttemptError(SinkError):
    """A task or stage ran again; the micro-batch has to, under a new producer epoch.

    The driver does that by itself. If it happens often, look for executors that die and for tasks that fail.
    """


def first_attempt_only() -> int:
    """Refuse to go on in any attempt but the first; returns the task's number."""
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows of a sink can only be written inside a Spark task")
    if context.attemptNumber() != 0:
        if context.getLocalProperty(SECOND_ATTEMPTS_WAIT) == "true":
            time.sleep(SPECULATIVE_WAIT_S_MAX)
        raise SecondAttemptError(
            f"attempt {context.attemptNumber()} of task {context.partitionId()} does not write",
            because="the first attempt may have written part of the rows under the same producer epoch",
        )
    return context.partitionId()


class JobWatch:
    """Knows which jobs ran between two moments, and whether any of their stages ran twice."""

    def __init__(self, context: SparkContext) -> None:
        """Begin to watch the jobs that this thread starts.

        By a tag of their own: a query's group has every job since it began, and each number is a question to the JVM.
        """
        self._context = context
        self._tracker = context.statusTracker()
        self._tag = f"semel-{next(_watches)}"
        context.addJobTag(self._tag)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Where Spark may speculate, second attempts wait, and a thread looks for tasks that have failed."""
        # Not getConf(), which asks the JVM for every setting there is, one by one.
        if str(self._context._conf.get(SPECULATION, "false")).lower() == "true":
            self._context.setLocalProperty(SECOND_ATTEMPTS_WAIT, "true")
            self._thread = threading.Thread(target=self._end_after_failure, name="semel-job-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop looking; jobs that nobody waits for any more are ended before the driver undoes what they have written.

        Why: a stop interrupts the wait for the job, and Spark ends a job that has begun since only when the query's
        thread is gone. Until then tasks would go on to write, into a transaction that is aborted meanwhile.
        """
        if error is not None:
            # First of all: no task may write any more when the driver aborts.
            self._context.cancelJobsWithTag(self._tag)
        self._context.removeJobTag(self._tag)
        if self._thread is not None:
            self._over.set()
            self._thread.join()
            self._context.setLocalProperty(SECOND_ATTEMPTS_WAIT, "false")

    def jobs(self) -> list[int]:
        """The jobs that were started since then, and no others of the query."""
        scala: Any = self._context._jsc.sc()
        return list(scala.statusTracker().getJobIdsForTag(self._tag))

    def _end_after_failure(self) -> None:
        """Cancel the jobs when a task has failed: its second attempt would wait for a first that is gone."""
        scala: Any = self._context._jsc.sc()
        while not self._over.wait(FAILURE_POLL_S):
            for job in self.jobs():
                if self._has_failed_tasks(job):
                    scala.cancelJob(job)

    def _has_failed_tasks(self, job: int) -> bool:
        found = self._tracker.getJobInfo(job)
        if found is None or found.status != "RUNNING":
            return False
        stages = [self._tracker.getStageInfo(stage) for stage in found.stageIds]
        return any(stage is not None and stage.numFailedTasks > 0 for stage in stages)

    def check_single_attempts(self) -> None:
        """Refuse if a stage of these jobs ran more than once; Spark's status comes late, so it is waited for."""
        self._await_books()
        for job in self.jobs():
            for stage in self._finished_stages(job):
                info = self._tracker.getStageInfo(stage)
                # Numbered from 0: anything above is a stage that ran
                # again, for example because shuffle files were lost.
                if info is not None and info.currentAttemptId > 0:
                    raise SecondAttemptError(f"stage {stage} of job {job} ran more than once")

    def _await_books(self) -> None:
        """Wait until Spark's status has all events: a job that is missing there could not be checked."""
        scala: Any = self._context._jsc.sc()
        try:
            scala.listenerBus().waitUntilEmpty(int(STATUS_WAIT_S_MAX * 1000))
        except Py4JJavaError as error:
            raise SecondAttemptError(
                "Spark's listeners lag behind, so whether stages ran twice is unknown",
                because=str(error.java_exception),
            ) from None

    def _finished_stages(self, job: int) -> list[int]:
        deadline = time.monotonic() + STATUS_WAIT_S_MAX
        while time.monotonic() < deadline:
            info = self._tracker.getJobInfo(job)
            if info is not None and info.status != "RUNNING":
                return list(info.stageIds)
            time.sleep(POLL_S)
        raise SecondAttemptError(f"Spark does not say how job {job} ended, so whether its stages ran twice is unknown")
