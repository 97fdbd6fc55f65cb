"""A checkpoint in a folder of this machine, read and written without Spark.

For processes that have no JVM to ask: the writers of `formats`, which Spark runs beside its driver, and the command
`semel pipeline`.

Keeps: E20 a file appears whole or not at all, and never beside a checksum (`.<name>.crc`) of what stood there before,
       which Hadoop would refuse to read.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from semel.errors import ConfigError
from semel.sinks.commands import local_path
from semel.spark.checkpoint import Checkpoint
from semel.spark.offset_log import CLAIM

PARTS = ("offsets", "commits", "metadata", CLAIM)


class LocalCheckpoint(Checkpoint):
    """A checkpoint that lies where this process can open files."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        super().__init__(str(path))
        self._place = path

    @classmethod
    def of(cls, given: str) -> LocalCheckpoint:
        """The folder that a query was given; ConfigError where only Spark can read it."""
        path = local_path(given)
        if path is None:
            raise ConfigError(
                f"the checkpoint {given} does not lie in a folder of the driver's machine",
                because="Spark runs the writers of a data source in a process of their own, and the offsets of a "
                "micro-batch are read there from the checkpoint's files",
                you_want="a path on a disk or a mounted volume; or semel.write_stream(…), which reads checkpoints "
                "through Spark",
            )
        return cls(path)

    def read(self, name: str) -> str | None:
        """Open the file."""
        return read_file(self._place, name)

    def write(self, name: str, text: str) -> None:
        """Write the file."""
        replace_file(self._place / name, text)

    def exists(self, name: str) -> bool:
        """Whether the file or folder is there."""
        return (self._place / name).exists()

    @property
    def query_id(self) -> str:
        """The id that Spark gave the query."""
        return query_id_of(self._place, is_known=self.exists("offsets"))


def read_file(folder: Path, name: str) -> str | None:
    """A file as text; None when there is none."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ConfigError(f"{folder / name} is not a text that Spark wrote", you_want="a whole copy") from None


def replace_file(path: Path, text: str) -> None:
    """Write a file in place of the one that may be there."""
    path.parent.mkdir(exist_ok=True)
    # First: a crash in between leaves a file without a checksum, which Hadoop reads; not one with a wrong checksum.
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    draft = path.with_name(f".{path.name}.semel.tmp")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    # The new name is durable only when the folder is.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def query_id_of(folder: Path, *, is_known: bool) -> str:
    """The id in the file `metadata`; `is_known` says that the folder is a checkpoint."""
    text = read_file(folder, "metadata")
    if text is None:
        raise ConfigError(
            f"{folder} is half a checkpoint: it has no file named metadata"
            if is_known
            else f"{folder} is no checkpoint: it has no file named metadata",
            because="Spark writes the query's id there before anything else",
            you_want="the folder that the query has as its checkpointLocation; a copy needs " + ", ".join(PARTS),
        )
    try:
        return str(json.loads(text.removeprefix("v1\n"))["id"])
    except (ValueError, KeyError, TypeError):
        raise ConfigError(f"{folder / 'metadata'} does not hold the id of a query", you_want="a whole copy") from None
