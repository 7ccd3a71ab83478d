"""Whose store and keys are meant: the machine's own server's, or those of the data directory that flags name."""

from __future__ import annotations

import argparse
from pathlib import Path

from tarmac.apps.layout import Layout, layout_of
from tarmac.apps.machine.configuration import documents_in
from tarmac.cli.options import default_data_dir, parsed

_SERVER = "ServerConfig"
_MADE_AGAIN = ("server.crt", "server.key")
ENCRYPTION_KEY = "secrets.key"
"""What the key of Secrets is called in a backup, wherever it lies."""
PKI = "pki/"


def layout_named(options: argparse.Namespace) -> Layout:
    """By `--data-dir`, else by the configuration file if it has a server, else by default. Raises BadConfigFile."""
    if options.data_dir is None and _SERVER in documents_in(options.config):
        server = parsed(["server", f"--config={options.config}"])
        server.store = options.store or server.store
        return layout_of(server)
    known = argparse.Namespace(data_dir=options.data_dir or default_data_dir(), store=options.store)
    return layout_of(known)


def key_files(layout: Layout) -> dict[str, Path]:
    """The files without which the store is of no use, by their names in a backup. What is made again is left out."""
    found = {
        f"{PKI}{path.name}": path
        for path in sorted(layout.pki.glob("*"))
        if path.is_file() and not path.name.startswith(".") and path.name not in _MADE_AGAIN
    }
    return {**found, ENCRYPTION_KEY: layout.encryption_key}


def key_path(layout: Layout, name: str) -> Path:
    """Where a file of a backup's keys belongs. Raises ValueError for a name that would lead elsewhere."""
    if name == ENCRYPTION_KEY:
        return layout.encryption_key
    bare = name.removeprefix(PKI)
    if not name.startswith(PKI) or "/" in bare or bare.startswith(".") or not bare:
        raise ValueError(f"the backup has keys that belong nowhere: {name!r}")
    return layout.pki / bare


def read_passphrase(path: Path) -> bytes:
    """The file's first line. Raises ValueError, OSError."""
    words = path.read_bytes().partition(b"\n")[0].rstrip(b"\r")
    if not words:
        raise ValueError(f"{path} has no passphrase in its first line")
    return words
