"""Gets Debian's etcd for the tests: `python -m tools.fetch_etcd` prints its path."""

from __future__ import annotations

import sys

from tools.debs import Deb, main

ETCD = (
    Deb("etcd", "etcd-server", "trixie", "3.5.16-4", "usr/bin/etcd"),
    Deb(
        "etcd", "etcd-server", "bookworm", "3.4.23-4+b4", "usr/bin/etcd",
        ": it is past its end of life and only good for tests",
    ),
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main(*ETCD))
