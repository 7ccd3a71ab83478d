"""`tarmac` with a shorter delay from the last old server's end until the format of the store is raised."""

from __future__ import annotations

import sys

from tarmac.apps import formatupgrade
from tarmac.apps.main import main

if __name__ == "__main__":
    formatupgrade.STABLE_SECONDS, formatupgrade.POLL_INTERVAL = 2.0, 0.5
    sys.exit(main())
