"""`python -m gradscope`."""

from __future__ import annotations

import sys

from gradscope.cli import main

if __name__ == "__main__":
    sys.exit(main())
