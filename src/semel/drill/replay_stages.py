"""What each point of a replay is played on: the user's own places, a copy of them, or an embedded cluster.

Words between braces in the command, the checkpoint and the sides are filled in for each point. Only the words that are
known here are: braces of JSON in a job's arguments stay as they are.

| word | what stands there |
|---|---|
| {point} | the point's name, so that each has a checkpoint and an output of its own |
| {checkpoint}, {output} | the checkpoint, and the output: a topic of the embedded cluster, or the copied folder |
| {bootstrap}, {input} | the embedded cluster, and the topic with the input |
| {folder} | an empty folder of the point |
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from semel.audit.places import Files, parse_place
from semel.drill.damage.records import new_topic
from semel.drill.numbered_records import ids_of, send_ids
from semel.drill.output_probe import Probe, probe_of
from semel.drill.replay import Audited, Stage
from semel.drill.replay_points import Point
from semel.engine.embedded import Cluster
from semel.errors import ConfigError

CHECKPOINT, OUTPUT = "SEMEL_CHECKPOINT", "SEMEL_OUTPUT"
BOOTSTRAP, INPUT_TOPIC, OUTPUT_TOPIC = "SEMEL_BOOTSTRAP_SERVERS", "SEMEL_INPUT_TOPIC", "SEMEL_OUTPUT_TOPIC"
PARTITIONS = 2  # of an output topic
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_CALL = (
    "import importlib, sys; module, _, name = sys.argv[1].partition(':');"
    " getattr(importlib.import_module(module), name)(*sys.argv[2:])"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a job reads and writes: as the user wrote it, or filled in for one point."""

    command: tuple[str, ...]
    checkpoint: str
    left: str
    rights: tuple[str, ...]

    def filled(self, words: Mapping[str, str]) -> Places:
        """With these words instead of their names in braces."""

        def fill(text: str) -> str:
            for name, value in words.items():
                # Not `format`: braces of JSON that mean nothing here would be errors.
                text = text.replace("{" + name + "}", value)
            return text

        return Places(
            command=tuple(map(fill, self.command)),
            checkpoint=fill(self.checkpoint),
            left=fill(self.left),
            rights=tuple(map(fill, self.rights)),
        )

    def has(self, word: str) -> bool:
        """Whether the command has this word in braces."""
        return any("{" + word + "}" in one for one in self.command)


def job_command(words: Sequence[str]) -> tuple[str, ...]:
    """The command as it is; `module:function` is called in a Python of its own, with the words behind it."""
    if _FUNCTION.fullmatch(words[0]) and not Path(words[0]).exists() and shutil.which(words[0]) is None:
        return (sys.executable, "-c", _CALL, *words)
    return tuple(words)


Audit = Callable[[str, Sequence[str]], Audited]


@dataclass(slots=True)
class InPlace:
    """The user's own places; with `{point}` in them, each point has its own."""

    places: Places
    audit: Audit

    def stage(self, point: Point) -> Stage:
        """The stage of one point."""
        return staged(self.places, {"point": point.word}, self.audit)


@dataclass(slots=True)
class OnCopies:
    """Copies of a checkpoint and of a folder with output, made again for each point; the originals are only read."""

    places: Places
    audit: Audit
    folder: Path

    def __post_init__(self) -> None:
        """Refuse what would not be run on the copies."""
        place = parse_place(self.places.rights[0])
        if len(self.places.rights) > 1 or not isinstance(place, Files):
            raise ConfigError(
                "--copy copies a checkpoint and one folder",
                you_want="--to parquet:/data/orders, or no --copy and {point} in --checkpoint, --to and COMMAND",
            )
        if not (self.places.has("checkpoint") and self.places.has("output")):
            raise ConfigError(
                "the job would not run on the copies",
                you_want="{checkpoint} and {output} in the command, where the folders of the copies are to stand",
            )

    def stage(self, point: Point) -> Stage:
        """Copy the checkpoint and the output for this point."""
        place = parse_place(self.places.rights[0])
        assert isinstance(place, Files)
        words = {"point": point.word}
        for name, original in (("checkpoint", self.places.checkpoint), ("output", place.path)):
            copy = self.folder / point.word / name
            # A query that never ran has no checkpoint, and its copy begins without one too.
            if Path(original).is_dir():
                shutil.copytree(original, copy)
            words[name] = str(copy)
        on_copy = replace(self.places, checkpoint="{checkpoint}", rights=(f"{place.form}:{{output}}",))
        return staged(on_copy, words, self.audit)


@dataclass(slots=True)
class OnCluster:
    """An embedded cluster, with an input topic for each point, and new records in it before each strike."""

    places: Places
    audit: Audit
    folder: Path
    cluster: Cluster
    records: int
    _fed: int = field(default=0, init=False)

    def stage(self, point: Point) -> Stage:
        """Make the topics and the folder for this point."""
        folder = self.folder / point.word
        folder.mkdir()
        source = new_topic(self.cluster, f"input-{point.word}")
        target = new_topic(self.cluster, f"output-{point.word}", partitions=PARTITIONS)
        words = {
            "point": point.word,
            "folder": str(folder),
            "bootstrap": self.cluster.bootstrap,
            "input": source,
            "output": target,
        }
        words["checkpoint"] = self.places.filled(words).checkpoint

        def feed() -> None:
            send_ids(self.cluster, source, ids_of(self._fed, self.records), partitions=1)
            self._fed += 1

        environment = {BOOTSTRAP: self.cluster.bootstrap, INPUT_TOPIC: source, OUTPUT_TOPIC: target}
        return replace(staged(self.places, words, self.audit, environment), feed=feed)


def staged(
    places: Places, words: Mapping[str, str], audit: Audit, environment: Mapping[str, str] | None = None
) -> Stage:
    """The stage of these places, filled in."""
    # The checkpoint may be named in the command, and have words of its own.
    checkpoint = places.filled(words).checkpoint
    filled = places.filled({**words, "checkpoint": checkpoint})
    outputs: list[Probe | None] = [probe_of(one) for one in filled.rights]
    return Stage(
        command=job_command(filled.command),
        checkpoint=Path(checkpoint),
        outputs=outputs,
        audit=lambda: audit(filled.left, filled.rights),
        sides=(filled.left, *filled.rights),
        environment={CHECKPOINT: checkpoint, OUTPUT: words.get("output", ""), **(environment or {})},
    )
