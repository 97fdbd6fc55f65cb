"""A target: a program of the user's own, in any language, what it promises, and what is to be done to it.

    guarantee = "exactly_once"
    [program]
    command = ["python", "billing.py"]
    [input]
    topic = "orders"
    [output]
    topic = "billed"

Everything else has a default. The program is told by environment variables where the cluster is, reads records that
semel makes, and writes a record for each whose value contains the id of the one that it came from.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from semel.drill.numbered_records import PLACE
from semel.errors import ConfigError
from semel.faults import FAULTS, ClusterShape, Schedule
from semel.guarantee import Guarantee
from semel.world.rng import SeededRng

BROKERS = 3
# What a program has to live with on any cluster, and what is felt whatever it does.
KINDS = (
    "kill-broker",
    "restart-broker",
    "pause-broker",
    "move-leader",
    "lose-request",
    "lose-response",
    "cut-response",
)
# A slip of the hand in the file must not fill the disk.
PARTITIONS_MAX, RECORDS_MAX, ROUNDS_MAX = 1_000, 1_000_000, 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One side of the program."""

    name: str
    partitions: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Some input, the faults while the program works on it, and how far it gets before it is killed; 0: it is not."""

    schedule: Schedule
    kill_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a file says."""

    command: tuple[str, ...]
    folder: Path
    source: Topic
    target: Topic
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    kills: int = 2
    value: str = PLACE
    records: int = 50
    """Of one round; as many before the first and after the last."""
    rounds: int = 4
    round_ms: float = 3_000
    gap_ms: float = 1_000
    kinds: tuple[str, ...] = field(default=KINDS)
    steady_s_max: float = 60

    def draw(self, seed: int) -> list[Round]:
        """What is done: it follows from the file and the seed alone."""
        shape = ClusterShape(brokers=BROKERS, topics={one.name: one.partitions for one in (self.source, self.target)})
        rng = SeededRng(seed).fork("kills of the program")
        left = list(range(self.rounds))
        # Drawn from what is left, so that no round has two kills.
        killed = {left.pop(rng.integer(0, len(left) - 1)) for _ in range(self.kills)}
        return [
            Round(
                schedule=Schedule.draw(
                    # A seed for each round: another number of rounds leaves the earlier ones as they were.
                    SeededRng(seed).fork(f"round {number}").integer(0, 2**31),
                    shape,
                    kinds=self.kinds,
                    length_ms=self.round_ms,
                    gap_ms=self.gap_ms,
                ),
                # Neither before nor after its work: in the middle.
                kill_after=rng.integer(self.records // 4, self.records * 3 // 4) if number in killed else 0,
            )
            for number in range(self.rounds)
        ]


_KNOWN: Mapping[str, tuple[str, ...]] = {
    "program": ("command", "kills"),
    "input": ("topic", "partitions", "records", "value"),
    "output": ("topic", "partitions"),
    "faults": ("kinds", "rounds", "round_s", "gap_s"),
    "limits": ("steady_s",),
}


def read_target(path: Path) -> Target:
    """Read the file; ConfigError says what cannot be."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML", because=str(error)) from None
    reader = _Reader(path, data)
    reader.check_names()
    command = reader.data("program").get("command")
    if not isinstance(command, list) or not command or not all(isinstance(word, str) for word in command):
        raise ConfigError(f"{path} names no program", you_want='[program] command = ["python", "job.py"]')
    target = Target(
        command=tuple(command),
        folder=path.absolute().parent,
        source=Topic(name=reader.topic("input"), partitions=reader.whole("input", "partitions", 2, PARTITIONS_MAX)),
        target=Topic(name=reader.topic("output"), partitions=reader.whole("output", "partitions", 2, PARTITIONS_MAX)),
        guarantee=Guarantee.parse(str(data.get("guarantee", Guarantee.EXACTLY_ONCE))),
        kills=reader.whole("program", "kills", 2, ROUNDS_MAX, low=0),
        value=str(reader.data("input").get("value", PLACE)),
        records=reader.whole("input", "records", 50, RECORDS_MAX, low=4),
        rounds=reader.whole("faults", "rounds", 4, ROUNDS_MAX),
        round_ms=reader.seconds("faults", "round_s", 3) * 1000,
        gap_ms=reader.seconds("faults", "gap_s", 1) * 1000,
        kinds=reader.kinds(),
        steady_s_max=reader.seconds("limits", "steady_s", 60),
    )
    if target.source.name == target.target.name:
        raise ConfigError(f"{path}: input and output are one topic", you_want="a topic for each")
    if target.kills > target.rounds:
        raise ConfigError(
            f"{path}: {target.kills} kills in {target.rounds} rounds", you_want="at most one kill in each round"
        )
    if PLACE not in target.value:
        raise ConfigError(f"{path}: [input] value has no {PLACE}", you_want=f'value = \'{{"order": "{PLACE}"}}\'')
    return target


class _Reader:
    """One file's content, and where to complain."""

    def __init__(self, path: Path, data: Mapping[str, object]) -> None:
        self._path, self._data = path, data

    def check_names(self) -> None:
        """A name that nobody reads would be believed to do something."""
        if unknown := sorted(set(self._data) - {*_KNOWN, "guarantee"}):
            raise ConfigError(f"{self._path} has an unknown name {unknown[0]!r}", you_want=", ".join(_KNOWN))
        for section, known in _KNOWN.items():
            if unknown := sorted(set(self.data(section)) - set(known)):
                raise ConfigError(
                    f"{self._path}: [{section}] has an unknown name {unknown[0]!r}", you_want=", ".join(known)
                )

    def data(self, section: str) -> Mapping[str, object]:
        """One section."""
        found = self._data.get(section, {})
        if not isinstance(found, dict):
            raise ConfigError(f"{self._path}: {section} is not a section", you_want=f"[{section}]")
        return found

    def topic(self, section: str) -> str:
        """A topic's name."""
        found = self.data(section).get("topic")
        if not isinstance(found, str) or not found:
            raise ConfigError(f"{self._path} names no topic", you_want=f'[{section}] topic = "orders"')
        return found

    def whole(self, section: str, name: str, default: int, high: int, *, low: int = 1) -> int:
        """A whole number."""
        found = self.data(section).get(name, default)
        if not isinstance(found, int) or isinstance(found, bool) or not low <= found <= high:
            raise ConfigError(
                f"{self._path}: [{section}] {name} cannot be {found!r}", you_want=f"a whole number from {low} to {high}"
            )
        return found

    def seconds(self, section: str, name: str, default: float) -> float:
        """A length of time."""
        found = self.data(section).get(name, default)
        if not isinstance(found, int | float) or isinstance(found, bool) or not 0 < found <= 86_400:
            raise ConfigError(f"{self._path}: [{section}] {name} cannot be {found!r}", you_want="seconds, above 0")
        return float(found)

    def kinds(self) -> tuple[str, ...]:
        """The faults by their names."""
        found = self.data("faults").get("kinds", list(KINDS))
        if not isinstance(found, list) or not found or (unknown := [one for one in found if one not in FAULTS]):
            raise ConfigError(
                f"{self._path}: [faults] kinds cannot be {unknown if isinstance(found, list) and found else found!r}",
                you_want=", ".join(FAULTS),
            )
        return tuple(found)
