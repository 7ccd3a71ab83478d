"""Providers written for one test each: executables in a folder, and the file that names them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tarmac.agent.sizing.configuration import API_VERSION, EXEC_VERSION, KIND

HEAD = {"kind": "SizingProviderResponse", "apiVersion": EXEC_VERSION}


def answer(**maps: Any) -> str:
    """A response, as a program prints it."""
    return json.dumps({**HEAD, **maps})


class Programs:
    """A folder of providers and their configuration."""

    def __init__(self, folder: Path) -> None:
        self.bin_dir = folder / "providers"
        self.config = folder / "sizing.json"
        self.bin_dir.mkdir(mode=0o755)
        self._named: list[dict[str, Any]] = []

    def python(self, name: str, *lines: str, **provider: Any) -> Path:
        """A provider in Python."""
        return self.script(name, f"#!{sys.executable} -SE", *lines, **provider)

    def shell(self, name: str, *lines: str, **provider: Any) -> Path:
        """A provider in the shell's language."""
        return self.script(name, "#!/bin/sh", *lines, **provider)

    def saying(self, name: str, **maps: Any) -> Path:
        """A provider that always answers this."""
        return self.shell(name, f"echo '{answer(**maps)}'")

    def script(self, name: str, *lines: str, **provider: Any) -> Path:
        """An executable file, named in the configuration after those before it."""
        path = self.bin_dir / name
        path.write_text("\n".join((*lines, "")))
        path.chmod(0o755)
        self.name(name, **provider)
        return path

    def name(self, name: str, **provider: Any) -> None:
        """Name a provider in the configuration, whether it is there or not."""
        self._named.append({"name": name, "apiVersion": EXEC_VERSION, **provider})
        self.write({"apiVersion": API_VERSION, "kind": KIND, "providers": self._named})

    def write(self, document: Any) -> None:
        """Put something else into the configuration."""
        self.config.write_text(json.dumps(document))
        self.config.chmod(0o644)
