"""Checks that the server will have the keys a backup needs, and installs those of the backup.

Existing keys stay. The backup's keys are installed where there are none, so a newly set up host becomes the server that
was backed up; if different keys exist, the operator has to decide.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tarmac.apps.backups.places import ENCRYPTION_KEY, PKI, key_path
from tarmac.apps.layout import Layout
from tarmac.apps.machine.checks import Obstacle
from tarmac.base.randomness import Randomness
from tarmac.server.security.encryption import SecretSealer
from tarmac.server.security.files import write_private
from tarmac.store.interface import Sealer
from tarmac.store.sqlite.sums import Row


def key_obstacles(layout: Layout, keys: Mapping[str, bytes], sealed_inside: bool) -> Iterator[Obstacle]:
    """Yield the obstacles. `keys` are the backup's, decrypted; `sealed_inside`: it has keys that are still sealed."""
    hint = "give --passphrase-file" if sealed_inside else "put the copies that were kept apart there"
    if not keys:
        for path in (layout.pki / "ca.key", layout.pki / "sa.key", layout.encryption_key):
            if not path.exists():
                yield Obstacle("keys", f"{path} is not here, and the restored server needs it; {hint}")
    for name, data in keys.items():
        path = key_path(layout, name)
        # A different encryption key file may have more keys; decrypting the Secrets shows if it fits.
        if name != ENCRYPTION_KEY and path.exists() and path.read_bytes() != data:
            keep = f"move {layout.pki} away to take the backup's, or leave --passphrase-file out to keep this one"
            yield Obstacle("keys", f"{path} is another than the backup's; {keep}")


def sealer_for(layout: Layout, keys: Mapping[str, bytes]) -> Sealer:
    """Return a sealer with the keys of the restored server. Raises BadKeyFile, OSError."""
    if layout.encryption_key.exists():
        return SecretSealer.from_file(layout.encryption_key, Randomness())
    with tempfile.TemporaryDirectory(prefix="tarmac-restore-") as folder:  # readable only by its owner
        copy = Path(folder) / ENCRYPTION_KEY
        write_private(copy, keys[ENCRYPTION_KEY])
        return SecretSealer.from_file(copy, Randomness())


def secret_obstacles(sealer: Sealer, rows: Iterable[Row]) -> Iterator[Obstacle]:
    """Decrypt the sealed objects of the backup; the first failure stands for all."""
    for row in rows:
        try:
            sealer.open(row.bucket, row.name, row.value or b"")
        except ValueError as error:
            yield Obstacle("secrets", f"{error}; put the key of that time into the encryption key file")
            return


def put_keys(layout: Layout, keys: Mapping[str, bytes]) -> None:
    """Install missing keys. Certificates before their keys: the presence of a key means that its pair is complete."""
    for name in sorted(keys, key=lambda each: (each.endswith(".key"), each)):
        path = key_path(layout, name)
        if not path.exists():
            if name.startswith(PKI):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, keys[name])
