"""Settings as they stand in a file, before anybody asks what they mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from semel.clients.setting_names import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The settings of one client or query.

    `name` says which of several in a file. A value that only the running program knows is a `Computed`. `library` is
    what the code around them tells, with the reason in `because`. `elsewhere` says why there may be more settings.
    """

    values: Mapping[str, object]
    line: int = 1
    lines: Mapping[str, int] = field(default_factory=dict)
    name: str = ""
    library: str = ""
    because: str = ""
    role: Role | None = None
    elsewhere: str = ""
