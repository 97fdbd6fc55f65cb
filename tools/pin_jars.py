"""Fetch every jar set again and write their SHA-256 to src/semel/engine/jar_digests.txt: `make pin-jars`.

Look at the difference before you commit it: a digest that changes while its version stays is an alarm, not a chore.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

from bench.measure.java_tools import KAFKA_TOOLS
from semel.engine import jar_digests
from semel.engine.jars import JAR_SETS, fetch_unverified, folder_name

# `sha256sum --check` passes over a line that begins like this.
HEADER = "# Made by `make pin-jars`.\n"


def main() -> None:
    """Fetch into a scratch folder, so that nothing in the cache is believed."""
    lines = []
    with tempfile.TemporaryDirectory(prefix="semel-pins-") as scratch:
        for jar_set in (*JAR_SETS, KAFKA_TOOLS):
            for coordinate in jar_set.coordinates:
                folder = Path(scratch) / folder_name(coordinate, jar_set.transitive)
                folder.mkdir(exist_ok=True)
                if any(folder.iterdir()):
                    continue  # two sets share it
                fetch_unverified(coordinate, folder, transitive=jar_set.transitive)
                for jar in folder.glob("*.jar"):
                    lines.append(f"{hashlib.sha256(jar.read_bytes()).hexdigest()}  {folder.name}/{jar.name}\n")
    target = Path(jar_digests.__file__).with_name(jar_digests.FILE)
    target.write_text(HEADER + "".join(sorted(lines, key=lambda line: line.partition("  ")[2])), encoding="ascii")
    sys.stderr.write(f"{target}: {len(lines)} jars\n")


if __name__ == "__main__":
    main()
