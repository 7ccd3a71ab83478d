"""Provider programs of tests: executables in a folder, and the configuration file that names them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tarmac.agent.sizing.providerconfig import API_VERSION, EXEC_VERSION, KIND

HEAD = {"kind": "SizingProviderResponse", "apiVersion": EXEC_VERSION}


def answer(**maps: Any) -> str:
    """Return a provider's response as a program prints it."""
    return json.dumps({**HEAD, **maps})


class Programs:
    """A folder of providers and their configuration."""

    def __init__(self, folder: Path) -> None:
        self.bin_dir = folder / "providers"
        self.config = folder / "sizing.json"
        self.bin_dir.mkdir(mode=0o755)
        self._named: list[dict[str, Any]] = []

    def python(self, name: str, *lines: str, **provider: Any) -> Path:
        """Add a provider in Python."""
        return self.script(name, f"#!{sys.executable} -SE", *lines, **provider)

    def shell(self, name: str, *lines: str, **provider: Any) -> Path:
        """Add a provider in shell."""
        return self.script(name, "#!/bin/sh", *lines, **provider)

    def saying(self, name: str, **maps: Any) -> Path:
        """Add a provider with a constant response."""
        return self.shell(name, f"echo '{answer(**maps)}'")

    def script(self, name: str, *lines: str, **provider: Any) -> Path:
        """Write an executable and append it to the configuration."""
        path = self.bin_dir / name
        path.write_text("\n".join((*lines, "")))
        path.chmod(0o755)
        self.name(name, **provider)
        return path

    def name(self, name: str, **provider: Any) -> None:
        """Append a provider to the configuration, with or without an executable."""
        self._named.append({"name": name, "apiVersion": EXEC_VERSION, **provider})
        self.write({"apiVersion": API_VERSION, "kind": KIND, "providers": self._named})

    def write(self, document: Any) -> None:
        """Replace the configuration's text."""
        self.config.write_text(json.dumps(document))
        self.config.chmod(0o644)
