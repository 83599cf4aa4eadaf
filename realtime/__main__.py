"""`python -m realtime` is `sori`."""

import sys

from realtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
