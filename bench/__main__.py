"""`python -m bench [row ...]`: run every measurement of this folder, or the named ones.

A row is a module beside this one with a `main()` that measures and prints one table. One row's failure does not stop
the others, but the exit code tells.
"""

import argparse
import importlib
import sys
import traceback
from pathlib import Path


def row_names() -> list[str]:
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))


def run_row(name: str) -> bool:
    print(f"== {name}", flush=True)
    module = importlib.import_module(f"bench.{name}")
    argv, sys.argv = sys.argv, [f"bench.{name}"]
    try:
        module.main()
    except Exception:  # noqa: BLE001 - whatever went wrong, the other rows are still worth measuring
        traceback.print_exc()
        return False
    finally:
        sys.argv = argv
    return True


def main() -> int:
    names = row_names()
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("rows", nargs="*", help=f"any of: {' '.join(names)}; all when none is named")
    chosen = parser.parse_args().rows or names
    if unknown := [name for name in chosen if name not in names]:
        parser.error(f"no such row: {' '.join(unknown)}; there are: {' '.join(names) or 'none'}")
    results = [run_row(name) for name in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
