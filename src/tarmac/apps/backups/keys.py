"""Checks that the server will have the keys it needs, and installs those of the backup where there are none.

Existing keys stay, so a newly set up host becomes the server that was backed up, and a restore brings no retired key
back.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from tarmac.apps.backups.hoststores import ENCRYPTION_KEY, PKI, key_path
from tarmac.apps.host.checks import Obstacle
from tarmac.apps.layout import Layout
from tarmac.server.security.keys.encryption import read_keys
from tarmac.server.security.keys.privatefiles import write_private


def key_obstacles(layout: Layout, keys: Mapping[str, bytes], sealed_inside: bool) -> Iterator[Obstacle]:
    """Yield the obstacles. `keys` are the backup's, decrypted; `sealed_inside`: it has keys that are still sealed."""
    missing = missing_keys(layout)
    if not keys:
        hint = "give --passphrase-file" if sealed_inside else "put the copies that were kept apart there"
        for path in missing:
            yield Obstacle("keys", f"{path} is not here, and the restored server needs it; {hint}")
    elif missing:
        for name, data in keys.items():
            path = key_path(layout, name)
            # The encryption key file is never half there, and Secrets are re-encrypted with the keys that it has.
            if name != ENCRYPTION_KEY and path.exists() and path.read_bytes() != data:
                names = ", ".join(map(str, missing))
                why = f"{path} is not the backup's, and {names} is missing beside it"
                yield Obstacle("keys", f"{why}; move {layout.pki} away to take the backup's")


def missing_keys(layout: Layout) -> list[Path]:
    """Return the missing files of those without which a server cannot go on."""
    needed = (layout.pki / "ca.crt", layout.pki / "ca.key", layout.pki / "sa.key", layout.encryption_key)
    return [path for path in needed if not path.exists()]


def own_encryption_keys(layout: Layout) -> list[tuple[str, bytes]]:
    """Return the encryption keys of this host by id, none on a new one. Raises BadKeyFile, OSError."""
    return read_keys(layout.encryption_key) if layout.encryption_key.exists() else []


def encryption_keys_in(keys: Mapping[str, bytes]) -> list[tuple[str, bytes]]:
    """Return the encryption keys among the decrypted keys of a backup. Raises BadKeyFile, OSError."""
    if ENCRYPTION_KEY not in keys:
        return []
    with tempfile.TemporaryDirectory(prefix="tarmac-restore-") as folder:  # readable only by its owner
        copy = Path(folder) / ENCRYPTION_KEY
        write_private(copy, keys[ENCRYPTION_KEY])
        return read_keys(copy)


def put_keys(layout: Layout, keys: Mapping[str, bytes]) -> None:
    """Install missing keys. Certificates before their keys: the presence of a key means that its pair is complete."""
    if not missing_keys(layout):
        return  # a part that only the backup has, such as the chain of a finished rotation, does not fit these
    for name in sorted(keys, key=lambda each: (each.endswith(".key"), each)):
        path = key_path(layout, name)
        if not path.exists():
            if name.startswith(PKI):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, keys[name])
