"""Passwords in options are in nothing that Spark shows: plans, pages, event log, progress, errors, log, checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.pages_program import CANARY, SECRETS

RUN_S_MAX = 300
PLACES = ("explain.txt", "progress.txt", "exceptions.txt", "pages.txt", "log.txt")


@pytest.mark.full
def test_no_password_is_on_any_page_of_spark(tmp_path: Path) -> None:
    with (tmp_path / "output.txt").open("w") as output:
        subprocess.run(
            [sys.executable, "-m", "tests.spark.pages_program", str(tmp_path)],
            stdout=output,
            stderr=output,
            timeout=RUN_S_MAX,
            check=False,
        )
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    texts = {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}
    events = b"".join(text for name, text in texts.items() if name.startswith("events/"))
    checkpoints = [name for name in texts if name.startswith("checkpoint-")]
    assert checkpoints
    for name in PLACES:
        assert CANARY.encode() in texts.get(name, b""), texts["output.txt"].decode()[-2000:]
    assert CANARY.encode() in events
    assert [(name, secret) for name, text in texts.items() for secret in SECRETS if secret.encode() in text] == []
