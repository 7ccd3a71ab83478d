"""A program that tests if the kernel can create a type of link, in a temporary network namespace."""

from __future__ import annotations

import sys
from pathlib import Path

from tarmac.datapath.linux import links
from tarmac.datapath.linux.netlink import Netlink

_MAC = "02:00:00:00:00:01"


def main() -> int:
    """Create a link of the named type; on failure print the kernel's error and return 1."""
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
