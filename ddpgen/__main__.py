"""Lets `python -m ddpgen` work where the console script is not on PATH."""

import sys

from ddpgen.cli import main

if __name__ == "__main__":
    sys.exit(main())
