"""Runs scripts on both clusters and finds where the recordings differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from semel.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from semel.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from tests.differential.allowed import ALLOWED, Allowed
from tests.differential.plain import differences
from tests.differential.talk import Side, Step, Talk, Versions
from tests.support.waiting import eventually
from tests.support.wire import Wire

Script = Callable[[Talk], None]
API_VERSIONS = 3
FIND_COORDINATOR = 4
GROUP, TRANSACTION = 0, 1
COORDINATOR_KEYS = 40  # enough to meet every partition of the coordinators' topics


@dataclass(frozen=True, slots=True)
class Difference:
    """Two answers that are not the same at one place."""

    script: str
    step: str
    api: str
    path: str
    embedded: str
    apache: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.step}: {self.api}.{self.path}: embedded {self.embedded}, Apache Kafka {self.apache}"


def permits(entry: Allowed, found: Difference) -> bool:
    """Tell whether an allowed difference covers one that was found."""
    return (
        entry.api == found.api
        and fnmatchcase(found.step, entry.step)
        and fnmatchcase(found.path, entry.path)
        and fnmatchcase(found.embedded, entry.embedded)
        and fnmatchcase(found.apache, entry.apache)
    )


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one script."""

    steps: int
    unexpected: tuple[Difference, ...]
    used: frozenset[Allowed]


def compare(script: str, embedded: list[Step], apache: list[Step]) -> list[Difference]:
    """Every difference between two recordings of a script."""
    names = [each.name for each in embedded], [each.name for each in apache]
    assert names[0] == names[1], "the script took different ways on the two clusters"
    return [
        Difference(script, ours.name, ours.api, path, a, b)
        for ours, theirs in zip(embedded, apache, strict=True)
        for path, a, b in differences(ours.answer, theirs.answer)
    ]


class Runs:
    """Both clusters; each script is run once and its result kept."""

    def __init__(self, embedded: Side, apache: Side, prefix: str = "script-") -> None:
        """Learn which versions both serve, and wake their coordinators."""
        self._prefix = prefix
        self._sides = (embedded, apache)
        ours, theirs = versions_of(embedded), versions_of(apache)
        self._versions = {
            key: (max(ours[key][0], theirs[key][0]), min(ours[key][1], theirs[key][1])) for key in ours.keys() & theirs
        }
        for side in self._sides:
            _wake(side)
        self._results: dict[str, Result] = {}

    def result(self, name: str, script: Script) -> Result:
        """Run a script on both clusters, or give what it gave before."""
        if name not in self._results:
            self._results[name] = self._run(name, script)
        return self._results[name]

    def _run(self, name: str, script: Script) -> Result:
        embedded, apache = (self._record(side, name, script) for side in self._sides)
        found = compare(name, embedded, apache)
        used = {entry for entry in ALLOWED if any(permits(entry, each) for each in found)}
        unexpected = [each for each in found if not any(permits(entry, each) for entry in used)]
        return Result(len(embedded), tuple(unexpected), frozenset(used))

    def _record(self, side: Side, name: str, script: Script) -> list[Step]:
        talk = Talk(side, self._versions, f"{self._prefix}{name}-")
        try:
            script(talk)
        finally:
            talk.close()
        return talk.steps


def versions_of(side: Side) -> Versions:
    """The versions that a broker says it serves."""
    with Wire(side.host, side.port) as wire:
        answer = wire.ask(
            ApiVersionsRequest(client_software_name="wire", client_software_version="1"),
            ApiVersionsResponse,
            version=API_VERSIONS,
        )
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


def _wake(side: Side) -> None:
    """Have both coordinators' topics made, and every partition of them loaded."""
    with Wire(side.host, side.port) as wire:
        for number in range(COORDINATOR_KEYS):
            for is_awake in (has_coordinator, _has_groups, _has_transactions):
                key = f"wake-{number}"
                eventually(lambda wake=is_awake, key=key: wake(wire, key), what=f"coordinators on {side.name}")  # type: ignore[misc]


def has_coordinator(wire: Wire, key: str) -> bool:
    """Whether both coordinators of this key can be found."""
    requests = [FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]) for kind in (GROUP, TRANSACTION)]
    answers = [wire.ask(request, FindCoordinatorResponse, version=FIND_COORDINATOR) for request in requests]
    return not any(answer.coordinators[0].error_code for answer in answers)


def _has_groups(wire: Wire, key: str) -> bool:
    return not wire.ask(OffsetFetchRequest(group_id=key, topics=None), OffsetFetchResponse, version=7).error_code


def _has_transactions(wire: Wire, key: str) -> bool:
    request = InitProducerIdRequest(transactional_id=key, transaction_timeout_ms=60_000)
    return not wire.ask(request, InitProducerIdResponse, version=4).error_code
