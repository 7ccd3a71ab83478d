"""The flags of backups and upgrades: `backup create`, `backup verify`, `restore`, `upgrade check`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from tarmac import __version__
from tarmac.cli.configpath import DEFAULT_FILE
from tarmac.cli.flags import add_kubeconfig_flags, add_output_flag, add_store_url

BACKUP_CODES: Final = "Exit codes: 0 done, 1 failed or refused, 2 the command line, 3 obstacles, nothing was changed."
_PASSPHRASE = "a file with the passphrase of the cluster's keys in its first line"


def add_backup_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac backup`."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    create = actions.add_parser("create", help="create a backup, while the server runs or not", epilog=BACKUP_CODES)
    create.add_argument("file", type=Path, metavar="FILE", help="the file; an older backup of that name is replaced")
    keys = create.add_mutually_exclusive_group(required=True)
    keys.add_argument(
        "--passphrase-file", type=Path, metavar="FILE",
        help="put the cluster's keys into it, encrypted by the first line of this file",
    )  # fmt: skip
    keys.add_argument("--without-keys", action="store_true", help="leave the cluster's keys out; keep them elsewhere")
    _add_place(create)

    verify = actions.add_parser("verify", help="check that a backup is intact, and that a passphrase decrypts it")
    verify.epilog = "Exit codes: 0 intact, 1 unreadable, 2 the command line, 3 damaged, with the cause."
    verify.add_argument("file", type=Path, metavar="FILE", help="the backup")
    verify.add_argument("--passphrase-file", type=Path, metavar="FILE", help=_PASSPHRASE)


def add_restore_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac restore`."""
    command.add_argument("file", type=Path, metavar="FILE", help="the backup")
    command.add_argument("--passphrase-file", type=Path, metavar="FILE", help=_PASSPHRASE)
    command.add_argument(
        "--accept-loss", action="store_true",
        help="do it; without this, only print the changes since the backup that would be lost",
    )  # fmt: skip
    command.add_argument(
        "--from-another-cluster", action="store_true",
        help="restore the objects of another cluster's backup, with its users' rights; the keys of this cluster stay",
    )  # fmt: skip
    command.add_argument(
        "--accept-unauthenticated", action="store_true",
        help="restore a backup of an earlier version, which is not protected from modification",
    )  # fmt: skip
    _add_place(command)


def add_upgrade_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac upgrade`."""
    check = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser(
        "check", help="print every obstacle to an upgrade: versions, fields, backup, disk, certificates"
    )
    check.epilog = "Exit codes: 0 safe to upgrade, 1 the server does not answer, 3 obstacles, a line each."
    check.add_argument(
        "--to", default=__version__, metavar="VERSION", help="the target version (default: this program's)"
    )
    _add_place(check)


def add_doctor_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac doctor`."""
    add_kubeconfig_flags(command)
    add_output_flag(command)
    _add_place(command)


def _add_place(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--config", type=Path, default=DEFAULT_FILE, metavar="FILE",
        help="the configuration file with the server's paths (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--data-dir", type=Path, metavar="DIR",
        help="the server's data directory (default: that of the configuration file, else the server's default)",
    )  # fmt: skip
    add_store_url(command)
