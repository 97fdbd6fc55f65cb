"""Which SQL a store's transaction runs: one statement at a time, and none that ends the transaction.

Why: a COMMIT in the middle keeps results whose offsets may never move; a ROLLBACK moves offsets whose results are gone.
     Savepoints are fine: they undo a part, and the transaction stays the same one.
"""

from __future__ import annotations

import re
from functools import lru_cache

from semel.errors import ConfigError

# Where a `;` or a word means nothing: comments, texts, quoted names, PostgreSQL's E'…' and $tag$…$tag$.
HIDDEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|(?<![\w$])\$(\w*)\$.*?\$\1\$""",
    re.DOTALL,
)
TO_SAVEPOINT = re.compile(r"ROLLBACK(\s+(WORK|TRANSACTION))?\s+TO\b", re.IGNORECASE)
ENDS_TRANSACTION = re.compile(
    r"(BEGIN|START|COMMIT|END|ABORT|ROLLBACK|PREPARE\s+TRANSACTION)\b",
    re.IGNORECASE,
)


# SQLite commits several files one after the other; a crash in between keeps results and offsets apart.
OTHER_FILE = re.compile(r"(ATTACH|DETACH)\b", re.IGNORECASE)


@lru_cache(maxsize=256)  # the same few statements run for every record
def checked(sql: str) -> str:
    """The statement, or ConfigError when it is several, or begins or ends a transaction."""
    # This is a help and no lock: SQL has more ways than a pattern knows.
    # `StoreTransaction` looks again before it commits.
    parts = [part.strip() for part in HIDDEN.sub(" ", sql).split(";")]
    statements = [part for part in parts if part]
    if len(statements) > 1:
        raise ConfigError(
            "a store's transaction runs one statement at a time",
            you_wrote=f"{len(statements)} statements, with ; between them",
            you_want="t.execute(…) for each",
            because="one of several could end the transaction, and results and offsets would be kept apart",
        )
    found = ENDS_TRANSACTION.match(statements[0]) if statements else None
    if found is not None and not TO_SAVEPOINT.match(statements[0]):
        raise ConfigError(
            f"{found.group().upper()} is not for a store's transaction",
            you_wrote=f"t.execute({' '.join(statements[0].split())[:60]!r})",
            you_want="leave the `with` block to commit, an exception to undo everything, a SAVEPOINT to undo a part",
            because="results and offsets are kept together, at the end of the block, or not at all",
        )
    if statements and (found := OTHER_FILE.match(statements[0])):
        raise ConfigError(
            f"{found.group().upper()} is not for a store's transaction",
            you_want="results in the file of the store",
            because="another file is committed on its own, and a crash could keep results and offsets apart",
        )
    return sql
