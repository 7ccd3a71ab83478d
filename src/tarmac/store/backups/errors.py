"""Errors of reading a backup file, one class per kind of fault.

BackupError ─┬─ NotABackup     a different file, or one of a newer format
             ├─ BackupCutOff   its end is missing
             └─ BackupDamaged  its content was changed, by a fault or on purpose
"""

from __future__ import annotations


class BackupError(Exception):
    """Root of the backup errors. `check` names the failed check in one word."""

    check = "file"


class NotABackup(BackupError):
    """A different file, or a backup that a newer version wrote."""


class BackupCutOff(BackupError):
    """The end of the file is missing."""

    check = "length"


class BackupDamaged(BackupError):
    """The content differs from the content that was written."""

    check = "content"
