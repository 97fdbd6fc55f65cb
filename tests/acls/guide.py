"""The guide's page about rights, read as what it promises: parts, the rights of each, and what is said without one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.acls.rights import Right

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "rights.md"
_ROW = re.compile(r"\| ([A-Z_]+) \| ([^|]+) \| ([^|]+) \|")
_ON = re.compile(r"(topic|groups? |group|transactional id)[^`]*`([^`]+)`")
RESOURCES = {"topic": "TOPIC", "group": "GROUP", "groups": "GROUP", "transactional id": "TRANSACTIONAL_ID"}
NAMES = ("orders", "bills", "billing")


@dataclass(frozen=True, slots=True)
class Promise:
    """One row: a right and what somebody without it reads."""

    operation: str
    on: str
    said: str

    def right(self, prefix: str) -> Right:
        """The entry, with the names of one run."""
        if self.on == "the cluster":
            return Right(self.operation)
        found = _ON.match(self.on)
        assert found is not None, self.on
        resource, name = found[1].strip(), found[2]
        pattern = "PREFIXED" if resource == "groups" else "LITERAL"
        return Right(self.operation, RESOURCES[resource], prefix + name if name in NAMES else name, pattern)

    @property
    def phrases(self) -> list[str]:
        """What the error has to contain."""
        return re.findall(r"`([^`]+)`", self.said)


def promises() -> dict[str, list[Promise]]:
    """Every part of the page."""
    _, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    return {
        section.partition("\n")[0]: [Promise(*(cell.strip() for cell in row)) for row in _ROW.findall(section)]
        for section in sections
    }
