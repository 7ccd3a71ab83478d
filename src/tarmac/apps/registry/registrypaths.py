"""Paths of a data directory's registry, and the lookup of its process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.processes import find_processes


@dataclass(frozen=True, slots=True)
class RegistryFiles:
    """The files of one registry, in its own directory."""

    folder: Path

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "config.yml"

    @property
    def images(self) -> Path:
        """The pushed images: the only files here that cannot be regenerated."""
        return self.folder / "images"

    @property
    def owners(self) -> Path:
        """The namespaces of the repositories, by uid."""
        return self.folder / "owners.json"

    @property
    def certificate(self) -> Path:
        """The serving certificate."""
        return self.folder / "server.crt"

    @property
    def key(self) -> Path:
        """The key of the certificate."""
        return self.folder / "server.key"

    @property
    def trusted(self) -> Path:
        """The certificate that verifies tokens."""
        return self.folder / "tokens.crt"

    @property
    def secret(self) -> Path:
        """The secret that signs the state of uploads, which continue after a restart."""
        return self.folder / "secret"

    @property
    def log(self) -> Path:
        """The log."""
        return self.folder / "registry.log"


def files_of(data_dir: Path) -> RegistryFiles:
    """Return the files of the registry of a data directory."""
    return RegistryFiles(data_dir / "registry")


def registries_of(data_dir: Path) -> list[int]:
    """Return the registries that run on a data directory, regardless of their parent."""
    wanted = ["serve", str(files_of(data_dir).config)]
    return find_processes(lambda words: words[-2:] == wanted)
