"""Gets Debian's zsh for the tests of completion, not installed: `python -m tools.fetch_zsh` prints its path."""

from __future__ import annotations

import sys

from tools.debs import NEWEST, Deb, main

ZSH = (
    Deb("zsh", "zsh", "bookworm", "5.9-4+b15", "bin/zsh", also=("zsh-common",)),
    Deb("zsh", "zsh", "bookworm", NEWEST, "bin/zsh", ": the pinned version is gone from the mirror", ("zsh-common",)),
)

if __name__ == "__main__":
    sys.exit(main(*ZSH))
