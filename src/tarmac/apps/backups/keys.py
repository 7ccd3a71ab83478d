"""Whether the server will have the keys that a backup needs, and putting those of the backup in place.

Keys that are here stay. Those of the backup are taken where there are none, so a machine that is set up anew becomes
the server that was backed up; where there are others, somebody has to decide which of them count.
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
    """What stands against it. `keys` are the backup's, opened; `sealed_inside`: it has some that are not."""
    hint = "give --passphrase-file" if sealed_inside else "put the copies that were kept apart there"
    if not keys:
        for path in (layout.pki / "ca.key", layout.pki / "sa.key", layout.encryption_key):
            if not path.exists():
                yield Obstacle("keys", f"{path} is not here, and the restored server needs it; {hint}")
    for name, data in keys.items():
        path = key_path(layout, name)
        # Another key file may have more keys; whether it opens the Secrets is found by opening them.
        if name != ENCRYPTION_KEY and path.exists() and path.read_bytes() != data:
            keep = f"move {layout.pki} away to take the backup's, or leave --passphrase-file out to keep this one"
            yield Obstacle("keys", f"{path} is another than the backup's; {keep}")


def sealer_for(layout: Layout, keys: Mapping[str, bytes]) -> Sealer:
    """Opens what the restored server will open. Raises BadKeyFile, OSError."""
    if layout.encryption_key.exists():
        return SecretSealer.from_file(layout.encryption_key, Randomness())
    with tempfile.TemporaryDirectory(prefix="tarmac-restore-") as folder:  # for its owner's eyes only
        copy = Path(folder) / ENCRYPTION_KEY
        write_private(copy, keys[ENCRYPTION_KEY])
        return SecretSealer.from_file(copy, Randomness())


def secret_obstacles(sealer: Sealer, rows: Iterable[Row]) -> Iterator[Obstacle]:
    """What the sealed objects of the backup say to those keys: the first that does not open stands for all."""
    for row in rows:
        try:
            sealer.open(row.bucket, row.name, row.value or b"")
        except ValueError as error:
            yield Obstacle("secrets", f"{error}; put the key of that time into the encryption key file")
            return


def put_keys(layout: Layout, keys: Mapping[str, bytes]) -> None:
    """Those that are not here. Certificates before their keys: a key says that its pair is complete."""
    for name in sorted(keys, key=lambda each: (each.endswith(".key"), each)):
        path = key_path(layout, name)
        if not path.exists():
            if name.startswith(PKI):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, keys[name])
