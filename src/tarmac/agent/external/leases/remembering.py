"""What a node knows of leases beyond the life of its agent: epochs, so that none goes back, and who carries what.

An agent that starts anew while the API server is away leads packets to where they went before.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tarmac.base.log import log

_log = log("external")


class Owner(msgspec.Struct, frozen=True):
    """Who carries an address: the epoch that he won, his name, and where his tunnels end."""

    epoch: int
    name: str
    node_address: str


class Known(msgspec.Struct, frozen=True):
    """By address."""

    epochs: dict[str, int] = {}
    owners: dict[str, Owner] = {}


_decode = msgspec.json.Decoder(Known).decode


class LeaseFile:
    """Kept by the thread of leases; written when an address changes its owner, and hardly at any other time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.kept = self._read()

    def keep(self, known: Known) -> None:
        """Have it on the disk. Raises OSError."""
        if known != self.kept:
            replace_file(self._path, msgspec.json.encode(known))
            self.kept = known

    def remove(self) -> None:
        """Know nothing any more."""
        self._path.unlink(missing_ok=True)
        self.kept = Known()

    def _read(self) -> Known:
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return Known()
        except (OSError, msgspec.DecodeError) as error:
            # Epochs are also in Gateways, and voters say them when they refuse: only the first attempt is in vain.
            _log.warning("what was known about owners of addresses cannot be read", why=str(error))
            return Known()


def replace_file(path: Path, content: bytes) -> None:
    """Put a whole file in the place of another, for this user only: whatever happens, one of the two is there."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(content)
    os.replace(draft, path)
