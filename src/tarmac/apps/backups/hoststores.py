"""Locates the store and keys of this host's server, or of the data directory named by flags."""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.apps.commands import parsed
from tarmac.apps.host.configuration import documents_in
from tarmac.apps.layout import Layout, layout_of
from tarmac.cli.flags import default_data_dir

_SERVER = "ServerConfig"
_REGENERATED = ("server.crt", "server.key")
ENCRYPTION_KEY = "secrets.key"
"""The name of the encryption key in a backup, independent of its path."""
PKI = "pki/"


def layout_named(options: argparse.Namespace) -> Layout:
    """Return the layout of `--data-dir`, else of the server in the configuration file, else the default.

    Raises BadConfigFile.
    """
    if options.data_dir is None and _SERVER in documents_in(options.config):
        server = parsed(["server", f"--config={options.config}"])
        server.store = options.store or server.store
        return layout_of(server)
    known = argparse.Namespace(data_dir=options.data_dir or default_data_dir(), store=options.store)
    return layout_of(known)


def key_files(layout: Layout) -> dict[str, Path]:
    """Return the files without which the store is useless, by their names in a backup, except regenerated ones."""
    found = {
        f"{PKI}{path.name}": path
        for path in sorted(layout.pki.glob("*"))
        if path.is_file() and not path.name.startswith(".") and path.name not in _REGENERATED
    }
    return {**found, ENCRYPTION_KEY: layout.encryption_key}


def key_path(layout: Layout, name: str) -> Path:
    """Return the path of a key file of a backup. Raises ValueError for a name that leads elsewhere."""
    if name == ENCRYPTION_KEY:
        return layout.encryption_key
    bare = name.removeprefix(PKI)
    if not name.startswith(PKI) or "/" in bare or bare.startswith(".") or not bare:
        raise ValueError(f"the backup has keys that belong nowhere: {name!r}")
    return layout.pki / bare


def read_passphrase(path: Path) -> bytes:
    """Return the file's first line. Raises ValueError, OSError."""
    words = path.read_bytes().partition(b"\n")[0].rstrip(b"\r")
    if not words:
        raise ValueError(f"{path} has no passphrase in its first line")
    return words
