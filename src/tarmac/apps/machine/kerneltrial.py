"""A program that tries whether the kernel makes a link of a kind, in a network namespace that goes with it."""

from __future__ import annotations

import sys
from pathlib import Path

from tarmac.datapath.linux import links
from tarmac.datapath.linux.netlink import Netlink

_MAC = "02:00:00:00:00:01"


def main() -> int:
    """Make a link of the kind that is named; 1 and the kernel's word when it does not."""
    with Path("/proc/self/ns/net").open() as here:
        messages = {
            "veth": links.veth("trial0", _MAC, 1500, "trial1", "", here.fileno()),
            "vxlan": links.vxlan("trial2", _MAC, 1450, 7, "127.0.0.1", here.fileno()),
        }
        try:
            Netlink().request([messages[sys.argv[1]]])
        except OSError as error:
            print(error.strerror, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
