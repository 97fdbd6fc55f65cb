"""S1: only the first attempt of a task writes, and only in the first attempt of its stage.

A second attempt would write under the same producer id and epoch, again from sequence 0; brokers would take its batches
for retries of the first attempt's. So a task that is not the first attempt fails, and before the driver commits it
makes sure that no stage of the job ran twice. Either way the micro-batch is run again under a new producer epoch.
"""

from __future__ import annotations

import time

from pyspark import SparkContext, TaskContext

from semel.errors import SinkError

STATUS_WAIT_S_MAX = 10.0
POLL_S = 0.005


class SecondAttemptError(SinkError):
    """A task or stage ran again; the micro-batch has to, under a new producer epoch."""


def first_attempt_only() -> int:
    """Refuse to go on in any attempt but the first; returns the task's number."""
    context = TaskContext.get()
    if context is None:
        raise SinkError("rows of a sink can only be written inside a Spark task")
    if context.attemptNumber() != 0:
        raise SecondAttemptError(
            f"attempt {context.attemptNumber()} of task {context.partitionId()} does not write",
            because="the first attempt may have written part of the rows under the same producer epoch",
        )
    return context.partitionId()


class JobWatch:
    """Knows which jobs ran between two moments, and whether any of their stages ran twice."""

    def __init__(self, context: SparkContext) -> None:
        """Begin to watch this thread's job group."""
        self._tracker = context.statusTracker()
        self._group = context.getLocalProperty("spark.jobGroup.id")
        self._before = set(self._jobs())

    def _jobs(self) -> list[int]:
        return list(self._tracker.getJobIdsForGroup(self._group))

    def check_single_attempts(self) -> None:
        """Refuse when a stage of a job since then ran more than once; Spark's own books lag, so they are awaited."""
        jobs = [job for job in self._jobs() if job not in self._before]
        for job in jobs:
            for stage in self._finished_stages(job):
                info = self._tracker.getStageInfo(stage)
                if info is not None and info.currentAttemptId > 0:
                    raise SecondAttemptError(f"stage {stage} of job {job} ran more than once")

    def _finished_stages(self, job: int) -> list[int]:
        deadline = time.monotonic() + STATUS_WAIT_S_MAX
        while time.monotonic() < deadline:
            info = self._tracker.getJobInfo(job)
            if info is not None and info.status != "RUNNING":
                return list(info.stageIds)
            time.sleep(POLL_S)
        raise SecondAttemptError(f"Spark does not say how job {job} ended, so whether its stages ran twice is unknown")
