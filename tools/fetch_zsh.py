"""Gets Debian's zsh for the tests of completion: `python -m tools.fetch_zsh` prints where it is, not installed."""

from __future__ import annotations

import sys

from tools.debs import NEWEST, Deb, main

ZSH = (
    Deb("zsh", "zsh", "bookworm", "5.9-4+b15", "bin/zsh", also=("zsh-common",)),
    Deb("zsh", "zsh", "bookworm", NEWEST, "bin/zsh", ": the pinned version is gone from the mirror", ("zsh-common",)),
)

if __name__ == "__main__":
    sys.exit(main(*ZSH))
