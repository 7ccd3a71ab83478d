"""Where the registry of a data directory keeps its things, and how its process is found by them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.processes import told


@dataclass(frozen=True, slots=True)
class RegistryFiles:
    """The files of one registry, all in a folder of its own."""

    folder: Path

    @property
    def config(self) -> Path:
        """What it is told."""
        return self.folder / "config.yml"

    @property
    def images(self) -> Path:
        """What was pushed: the one thing here that cannot be made anew."""
        return self.folder / "images"

    @property
    def owners(self) -> Path:
        """For which namespaces that was, by their uids."""
        return self.folder / "owners.json"

    @property
    def certificate(self) -> Path:
        """Serves."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """Belongs to the certificate."""
        return self.folder / "server.key"

    @property
    def trusted(self) -> Path:
        """Signs tokens."""
        return self.folder / "tokens.crt"

    @property
    def secret(self) -> Path:
        """Signs the state of uploads, which go on after a restart."""
        return self.folder / "secret"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "registry.log"


def files_of(data_dir: Path) -> RegistryFiles:
    """The files of the registry of a data directory."""
    return RegistryFiles(data_dir / "registry")


def registries_of(data_dir: Path) -> list[int]:
    """Registries that run on a data directory, whoever started them."""
    wanted = ["serve", str(files_of(data_dir).config)]
    return told(lambda words: words[-2:] == wanted)
