"""Runs the demo: `python demo.py --help`, or `make demo`. What it does is in `flights_demo`."""

import sys

from flights_demo.command import main

if __name__ == "__main__":
    sys.exit(main())
