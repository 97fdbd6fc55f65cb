"""Without PySpark, or with another version, the public names say what to install instead of how Python failed."""

import subprocess
import sys
from pathlib import Path

import pytest

NAMES = ["semel.KafkaSink", "semel.write_stream", "semel.write_batch", "semel.spark.session", "semel.spark.register"]
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules.pop("pyspark", None)
if sys.argv[2] == "none":
    sys.modules["pyspark"] = None
import semel, semel.spark
from semel.errors import MissingExtraError
for name in sys.argv[3:]:
    try:
        getattr(semel.spark if name.startswith("semel.spark") else semel, name.rpartition(".")[2])
    except MissingExtraError as error:
        print(str(error).replace("\\n", " "))
"""


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("none", "what runs inside Spark needs the extra 'spark'"),
        ("4.1.0", "semel needs PySpark 4.2, and this is 4.1.0"),
    ],
)
def test_what_is_missing_is_said_with_the_command_that_brings_it(found: str, words: str, tmp_path: Path) -> None:
    package = tmp_path / "pyspark"
    package.mkdir()
    (package / "__init__.py").write_text(f'__version__ = "{found}"\n')
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), found, *NAMES],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = told.stdout.splitlines()
    assert len(lines) == len(NAMES), told.stdout + told.stderr
    assert all(words in line and "pip install" in line and "[spark]" in line for line in lines)
