"""A file that redirects a local browser to an address with a secret in it.

Command lines are visible to every local user. So a browser is started with the name of a file that only its owner can
read, instead of the address.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path


@contextmanager
def redirect_file(address: str) -> Generator[Path]:
    """Yield a file, readable only by this user, that redirects a browser to the address."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    with tempfile.TemporaryDirectory(prefix="tarmac-open-", dir=runtime) as folder:  # of mode 0700
        file = Path(folder) / "open.html"
        file.touch(0o600)
        file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(address)}">')
        yield file
