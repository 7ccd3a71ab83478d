"""Makes fresh Debian roots for installing the package: its dependencies by mmdebstrap, and nothing else of ours.

`python -m tools.debian_roots` makes those of Debian 12 and 13, once, as root, and prints their paths. They are
read-only: machines of tests lay their own files over them.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.cache import cached, digest, say
from tools.debs import mirror
from tools.guestfiles import run_tool
from tools.machines_package import DEPENDS as MACHINES_DEPENDS
from tools.package import DEPENDS

RELEASES = {"12": "bookworm", "13": "trixie"}
_LEFT_OUT = ("doc", "man", "info", "locale")
_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"  # as Debian's installer writes it
_NO_VERSION = re.compile(r"\s*\(.*?\)")
_PACKAGES = tuple(_NO_VERSION.sub("", each).strip() for each in DEPENDS.split(","))
FOR_MACHINES = tuple(each.strip() for each in MACHINES_DEPENDS.split(","))
"""Packages that `tarmac-machines` depends on, for a root that it can be installed into without a network."""


def ensure(debian: str, more: tuple[str, ...] = ()) -> Path:
    """Return the root of that Debian with `more` packages; make it if need be. Raises RuntimeError with the cause."""
    if os.geteuid() != 0:
        raise RuntimeError("Debian roots can be made by root only")
    packages = (*_PACKAGES, *more)
    key = digest(each.encode() for each in (*packages, *_LEFT_OUT, _HOSTS))
    return cached("debian-root", debian, key, lambda folder: _bootstrap(folder / "root", debian, packages)) / "root"


def _bootstrap(tree: Path, debian: str, packages: tuple[str, ...]) -> None:
    say(f"making a root of Debian {debian}")
    options = ["--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in _LEFT_OUT)]
    include = f"--include={','.join(packages)}"
    run_tool(
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", *options, include, RELEASES[debian], str(tree),
        mirror(),
    )  # fmt: skip
    (tree / "etc" / "hosts").write_text(_HOSTS)


def main() -> int:
    """Make all; return the exit code."""
    try:
        with ThreadPoolExecutor(len(RELEASES)) as workers:
            for root in workers.map(ensure, RELEASES):
                print(root)
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
