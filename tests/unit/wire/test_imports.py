"""Every Spark worker imports the client: it must stay small."""

import subprocess
import sys

HEAVY = ("numpy", "pyarrow", "numba", "pandas", "asyncio", "cryptography", "pyspark", "kio", "semel.broker")
PROGRAM = """
import sys
import semel.wire.fetch, semel.wire.offsets, semel.wire.produce, semel.wire.transaction
print(*sorted(name for name in sys.modules))
"""


def test_the_client_imports_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(ran.stdout.split())
    assert "semel.wire.connection" in loaded
    assert sorted(loaded & set(HEAVY)) == []
