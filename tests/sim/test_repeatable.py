"""One seed, one history, byte for byte: in this process, again, and in a fresh one that hashes differently.

Keeps: W1 callbacks, times, draws and bytes repeat exactly.
"""

import os
import subprocess
import sys

import pytest

from semel.sim import run_seed

SEEDS = (3, 8)  # many messages lost; brokers killed with requests under way
PRINT_DIGESTS = "import sys; from semel.sim import run_seed; print(*(run_seed(int(s)).digest for s in sys.argv[1:]))"


@pytest.mark.quick(1)
@pytest.mark.parametrize("hash_seed", ["1", "12345"])
def test_a_fresh_process_that_hashes_differently_gives_the_same_history(hash_seed: str) -> None:
    told = subprocess.run(
        [sys.executable, "-c", PRINT_DIGESTS, *map(str, SEEDS)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.split()
    assert told == [run_seed(seed).digest for seed in SEEDS]


def test_another_seed_gives_another_history() -> None:
    assert run_seed(3).digest != run_seed(8).digest
