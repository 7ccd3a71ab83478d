"""The path of a host's configuration file, separate from its reader, which needs a YAML parser."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_FILE: Final = Path("/etc/tarmac/config.yaml")
