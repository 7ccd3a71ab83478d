"""Gets Debian's Prometheus for the tests: `python -m tools.fetch_prometheus` prints its path."""

from __future__ import annotations

import sys

from tools.debs import Deb, main

PROMETHEUS = (
    Deb("prometheus", "prometheus", "bookworm", "2.42.0+ds-5+deb12u1", "usr/bin/prometheus"),
    Deb("prometheus", "prometheus", "trixie", "2.53.3+ds1-2", "usr/bin/prometheus"),
)

if __name__ == "__main__":
    sys.exit(main(*PROMETHEUS))
