"""Makes fresh Debian roots to install the package into: what it depends on by mmdebstrap, and nothing else of ours.

`python -m tools.debian_roots` makes those of Debian 12 and 13, once, as root, and prints where they are. They are only
ever read: machines of tests lay their own files over them.
"""

from __future__ import annotations

import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.cache import cache_root, cached, digest, say
from tools.debs import mirror
from tools.guestfiles import run_tool
from tools.package import DEPENDS

RELEASES = {"12": "bookworm", "13": "trixie"}
_LEFT_OUT = ("doc", "man", "info", "locale")
_HOSTS = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n"  # as Debian's installer writes it
_PACKAGES = tuple(re.sub(r"\s*\(.*?\)", "", each).strip() for each in DEPENDS.split(","))


def find_root(debian: str) -> Path | None:
    """The root of that Debian; None when it was not made yet."""
    place = cache_root() / f"debian-root-{debian}-{_key()}"
    return place / "root" if place.is_dir() else None


def ensure(debian: str) -> Path:
    """The root of that Debian, made if need be. Raises RuntimeError, which also says what is missing."""
    if os.geteuid() != 0:
        raise RuntimeError("Debian roots can be made by root only")
    return cached("debian-root", debian, _key(), lambda folder: _bootstrap(folder / "root", debian)) / "root"


def _key() -> str:
    return digest(each.encode() for each in (*_PACKAGES, *_LEFT_OUT, _HOSTS))


def _bootstrap(tree: Path, debian: str) -> None:
    say(f"making a root of Debian {debian}")
    options = ["--dpkgopt=force-unsafe-io", *(f"--dpkgopt=path-exclude=/usr/share/{each}/*" for each in _LEFT_OUT)]
    include = f"--include={','.join(_PACKAGES)}"
    run_tool(
        "mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", *options, include, RELEASES[debian], str(tree),
        mirror(),
    )  # fmt: skip
    (tree / "etc" / "hosts").write_text(_HOSTS)


def main() -> int:
    """Make all; the exit code."""
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
