"""Folders of files: which of them Spark would leave out without a word.

Spark reads the files of a folder, or those of its partitions (`day=1`), and not both. What is in other subfolders it
leaves out. So the files that are there are listed first, and a folder that would be read in part is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from semel.audit.places import Files
from semel.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_folder(spark: SparkSession, place: Files) -> frozenset[str]:
    """The names of the columns in which a folder is partitioned; ConfigError if Spark would read a part of it."""
    folders = _folders(spark, place.path)
    if not folders:
        return frozenset()  # files by name; of what is not there Spark says so
    # Hidden files are left out here as there: it is Spark that lists them.
    listed = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(place.path).inputFiles()
    inside = {_inside(urlsplit(one).path, folders) for one in listed}
    partitions = frozenset(
        unquote(level.partition("=")[0]) for below in inside for level in below.split("/") if "=" in level
    )
    left_out = sorted(below for below in inside if ("=" not in below if partitions else below))
    if not left_out:
        return partitions
    if not left_out[0]:
        raise ConfigError(
            f"{place.text} would be read in part: files beside its partitions are left out",
            because="Spark reads the files of a folder or those of its partitions",
            you_want="these files in a partition like the others, or in another folder",
        )
    below = unquote(left_out[0])
    parent, slash, name = place.path.rstrip("/").rpartition("/")
    raise ConfigError(
        f"{place.text} would be read in part: its subfolder {below!r} is left out",
        because="Spark reads the files of a folder or those of its partitions (name=value), and of no other subfolder",
        you_want=f"{place.form}:{parent}{slash}{{{name},{name}/{below}}} for both, if the subfolder belongs to the data"
        if "" in inside
        else f"{place.form}:{place.path.rstrip('/')}/{below}",
    )


def _folders(spark: SparkSession, path: str) -> list[str]:
    """The folders that a path or a pattern stands for, as Spark calls them."""
    java = spark._jvm
    assert java is not None
    pattern = java.org.apache.hadoop.fs.Path(path)
    system = pattern.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    found = system.globStatus(pattern) or ()
    return [urlsplit(one.getPath().toUri().toString()).path for one in found if one.isDirectory()]


def _inside(file: str, folders: list[str]) -> str:
    """The folder of a file, from the nearest of these folders on; empty for a file that lies directly in one."""
    folder = file.rpartition("/")[0]
    outer = [one for one in folders if f"{folder}/".startswith(f"{one}/")]
    return folder[len(max(outer, key=len)) + 1 :] if outer else ""
