"""Where a machine's configuration file is, apart from what reads it: only that needs a reader of YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_FILE: Final = Path("/etc/tarmac/config.yaml")
