"""Builds kube-controller-manager for `tarmac up --with-kubernetes-controllers` and prints its path. Needs no root."""

from __future__ import annotations

import sys

from tools.cache import cache_root
from tools.gobuild import build
from tools.node_parts import link

PROGRAM = "kube-controller-manager"


def main() -> int:
    """Build the program unless it is there, link it beside the other parts, and print the path."""
    place = cache_root() / "node" / "bin" / PROGRAM
    link(place, build(PROGRAM))
    print(place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
