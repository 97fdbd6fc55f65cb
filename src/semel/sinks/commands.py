"""The commands that an operator is told to run, as texts that a shell takes as they are.

Why here: errors of the sink end with them, and `semel pipeline` itself names the others of its family.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from urllib.parse import unquote

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FILE = re.compile(r"file:(?://(?:localhost)?(?=/))?(/.*)", re.IGNORECASE)


def local_path(checkpoint: str) -> Path | None:
    """The folder of this machine that a path or a `file:` URI names; None for any other file system.

    A URI may write a blank as `%20`; a folder whose name has these very characters goes first.
    """
    uri = _FILE.fullmatch(checkpoint)
    if uri is not None:
        path = Path(uri[1])
        decoded = Path(unquote(uri[1]))
        return decoded if not path.exists() and decoded.exists() else path
    return None if _SCHEME.match(checkpoint) else Path(checkpoint)


def status_command(pipeline: str, bootstrap: str, checkpoint: str = "") -> str:
    """What shows a pipeline's whole situation."""
    return _command("status", pipeline, bootstrap, *(("--checkpoint", checkpoint) if checkpoint else ()))


def reset_command(pipeline: str, bootstrap: str, checkpoint: str) -> str:
    """What lets a checkpoint go on where the output ends; empty when it does not lie on this machine."""
    path = local_path(checkpoint) if checkpoint else None
    if path is None:
        return ""
    return _command("reset", pipeline, bootstrap, "--to", "ledger", "--checkpoint", str(path))


def repair_command(pipeline: str, bootstrap: str) -> str:
    """What ends a transaction that is open although it was decided."""
    return _command("repair", pipeline, bootstrap)


def _command(verb: str, pipeline: str, bootstrap: str, *more: str) -> str:
    # A name that begins with a dash would be taken for an option.
    name = ("--", pipeline) if pipeline.startswith("-") else ()
    words = ("--bootstrap", bootstrap, *more)
    return shlex.join(["semel", "pipeline", verb, *([] if name else [pipeline]), *words, *name])
