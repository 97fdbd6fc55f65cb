"""What Spark's checkpoint says about a micro-batch: its offsets, when it was planned, and what was done before.

Spark writes `offsets/<micro-batch id>` before a micro-batch runs and `commits/<id>` after it. Neither `foreachBatch`
nor a data source is given offsets, and a row's own offset does not help where filters drop rows, so they are read here
(E7). The driver reads files through Spark's own file systems, so that a checkpoint may lie on HDFS or in an object
store; a process beside it has only folders of its machine (`local_checkpoint`). What files mean is in `offset_log`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from semel.spark.offset_log import CLAIM, OffsetLog, check_claim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Checkpoint(ABC):
    """A query's checkpoint folder."""

    def __init__(self, folder: str) -> None:
        """Nothing is read yet."""
        self.folder = folder
        self.log = OffsetLog(folder, self.read)

    @abstractmethod
    def read(self, name: str) -> str | None:
        """A file of it as text; None when there is none."""

    @abstractmethod
    def write(self, name: str, text: str) -> None:
        """Write a small file that only the driver of the pipeline writes, in place of the one that may be there."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether the checkpoint has this file or folder."""

    def claim(self, pipeline: str, micro_batch_id: int) -> None:
        """Leave the pipeline's name in the checkpoint; refuse one that another pipeline has left its name in."""
        owners = (self.read(CLAIM) or "").split()
        if pipeline in owners:
            return
        check_claim(owners, pipeline, micro_batch_id, self.folder)
        self.write(CLAIM, "\n".join([*owners, pipeline]))

    @property
    def is_stateful(self) -> bool:
        """Whether the query keeps state, which must be computed once (E10)."""
        return self.exists("state")


class SparkCheckpoint(Checkpoint):
    """Read through Hadoop's file systems, as Spark itself does: it may lie anywhere."""

    def __init__(self, spark: SparkSession, folder: str) -> None:
        """Nothing is read yet."""
        super().__init__(folder)
        self._spark = spark

    # Classes are looked up once, by their whole name: each part of a dotted name is a question to the JVM.

    @cached_property
    def _path_class(self) -> Any:
        return getattr(self._spark._jvm, "org.apache.hadoop.fs.Path")

    @cached_property
    def _streams(self) -> Any:
        return getattr(self._spark._jvm, "org.apache.commons.io.IOUtils")

    @cached_property
    def _system(self) -> Any:
        jsc: Any = self._spark.sparkContext._jsc
        return self._path_class(self.folder).getFileSystem(jsc.hadoopConfiguration())

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.folder}/{name}")

    def read(self, name: str) -> str | None:
        """Ask the JVM."""
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._streams.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        """Let the JVM write."""
        stream = self._system.create(self._path(name), True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        # As Spark does with its own files: whoever copies this one alone leaves a checksum behind that is another's.
        self._system.delete(self._path(f".{name}.crc"), False)

    def exists(self, name: str) -> bool:
        """Ask the JVM."""
        return bool(self._system.exists(self._path(name)))
