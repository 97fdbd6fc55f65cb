"""The names of stories, as cells of the matrix have them; `stories` tells them.

Why apart from it: the matrix is read by `semel drill --list`, which starts nothing and needs no cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.guarantee import Guarantee

STORY = "story"
NAMES = (
    "late write",
    "late add",
    "late end",
    "late batch",
    "late marker",
    "overtaken marker",
    "dead coordinator",
    "second decision",
    "unanswered commit",
    "lost marker",
    "lonely decision",
    "dead owner",
    "unfinished",
    "moved leader",
    "restarted replica",
    "early read",
    "parted replica",
    "former leader",
    "reader ahead",
    "hasty follower",
    "lonely leader",
    "power cut",
    "demoted leader",
    "moved coordinator",
    "replaced controller",
    "two newcomers",
    "last epoch",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryWay:
    """A producer that is moved request by request, and readers of committed records."""

    path: str = STORY
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryFault:
    """What happens in one story."""

    name: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its faults: each story makes its own."""
        return (STORY,)


STORY_WAY = StoryWay()
STORY_FAULTS = tuple(StoryFault(name=name) for name in NAMES)
