"""The flags of backups and upgrades: `backup create`, `backup verify`, `restore`, `upgrade check`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarmac import __version__
from tarmac.cli.configpath import DEFAULT_FILE

_CODES = "Exit codes: 0 done, 1 failed or refused, 2 the command line, 3 obstacles, nothing was changed."
_PASSPHRASE = "a file with the passphrase of the cluster's keys in its first line"

AddStoreUrl = Callable[[argparse.ArgumentParser], None]


def add_backup(commands: Any, add_store_url: AddStoreUrl) -> None:
    """Add the commands to the top parser's subparsers."""
    backup = commands.add_parser("backup", help="a copy of everything a server has stored, in one file")
    actions = backup.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a backup, while the server runs or not", epilog=_CODES)
    create.add_argument("file", type=Path, metavar="FILE", help="the file; an older backup of that name is replaced")
    keys = create.add_mutually_exclusive_group(required=True)
    keys.add_argument(
        "--passphrase-file", type=Path, metavar="FILE",
        help="put the cluster's keys into it, encrypted by the first line of this file",
    )  # fmt: skip
    keys.add_argument("--without-keys", action="store_true", help="leave the cluster's keys out; keep them elsewhere")
    _add_place(create, add_store_url)

    verify = actions.add_parser("verify", help="check that a backup is intact, and that a passphrase decrypts it")
    verify.epilog = "Exit codes: 0 intact, 1 unreadable, 2 the command line, 3 damaged, with the cause."
    verify.add_argument("file", type=Path, metavar="FILE", help="the backup")
    verify.add_argument("--passphrase-file", type=Path, metavar="FILE", help=_PASSPHRASE)

    restore = commands.add_parser("restore", help="restore a stopped server from a backup", epilog=_CODES)
    restore.add_argument("file", type=Path, metavar="FILE", help="the backup")
    restore.add_argument("--passphrase-file", type=Path, metavar="FILE", help=_PASSPHRASE)
    restore.add_argument(
        "--accept-loss", action="store_true",
        help="do it; without this, only print the changes since the backup that would be lost",
    )  # fmt: skip
    restore.add_argument(
        "--from-another-cluster", action="store_true",
        help="restore the objects of another cluster's backup, with its users' rights; the keys of this cluster stay",
    )  # fmt: skip
    restore.add_argument(
        "--accept-unauthenticated", action="store_true",
        help="restore a backup of an earlier version, which is not protected from modification",
    )  # fmt: skip
    _add_place(restore, add_store_url)

    upgrade = commands.add_parser("upgrade", help="check whether an upgrade is safe")
    check = upgrade.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser(
        "check", help="print every obstacle to an upgrade: versions, fields, backup, disk, certificates"
    )
    check.epilog = "Exit codes: 0 safe to upgrade, 1 the server does not answer, 3 obstacles, a line each."
    check.add_argument(
        "--to", default=__version__, metavar="VERSION", help="the target version (default: this program's)"
    )
    _add_place(check, add_store_url)


def _add_place(command: argparse.ArgumentParser, add_store_url: AddStoreUrl) -> None:
    command.add_argument(
        "--config", type=Path, default=DEFAULT_FILE, metavar="FILE",
        help="the configuration file with the server's paths (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--data-dir", type=Path, metavar="DIR",
        help="the server's data directory (default: that of the configuration file, else the server's default)",
    )  # fmt: skip
    add_store_url(command)
