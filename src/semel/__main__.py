"""`python -m semel`: the same as the `semel` command."""

import sys

from semel.cli import main

if __name__ == "__main__":
    sys.exit(main())
