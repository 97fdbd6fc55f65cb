"""Generated files say so, in the file and to git; and none is there that nothing uses."""

import re
import subprocess

from semel.engine import jar_digests
from semel.protocol import messages
from tests.tidy.project import GENERATED, PACKAGE, ROOT, project_files, text_of
from tools import generate_messages, generate_pages

MADE_WHOLE = [
    *generate_messages.render_all(),
    *(path for path in generate_pages.render_all() if path.name != "DESIGN.md"),
    PACKAGE / "engine" / jar_digests.FILE,
]


def test_every_generated_file_says_how_it_is_made() -> None:
    assert [
        path.name for path in MADE_WHOLE if not re.search(r"[Mm]ade by |`make generate`", text_of(path)[:600])
    ] == []


def test_git_knows_the_generated_files() -> None:
    found = subprocess.run(
        ["git", "check-attr", "linguist-generated", "--", *(str(path) for path in MADE_WHOLE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line for line in found.stdout.splitlines() if not line.endswith(": true")] == []


def test_the_folder_of_messages_has_what_is_generated_and_nothing_else() -> None:
    assert {path for path in generate_messages.render_all() if path.parent == GENERATED} == set(GENERATED.glob("*.py"))


def test_every_message_is_used() -> None:
    own = [path for path in project_files() if PACKAGE in path.parents and GENERATED not in path.parents]
    used = {name for path in own for name in re.findall(rf"{messages.__name__}\.(\w+)", text_of(path))}
    used |= {
        name for path in GENERATED.glob("*.py") for name in re.findall(rf"{messages.__name__}\.(\w+)", text_of(path))
    }
    assert sorted(set(generate_messages.NAMES) - used) == []
