"""What can be wrong with a file that should be a backup, each told apart.

BackupError ─┬─ NotABackup     some other file, or one of a newer format
             ├─ BackupCutOff   its end is missing
             └─ BackupDamaged  it is not what was written, by a fault or by somebody
"""

from __future__ import annotations


class BackupError(Exception):
    """Root of them. `check` names what failed, in a word."""

    check = "file"


class NotABackup(BackupError):
    """Some other file, or one that a newer version made."""


class BackupCutOff(BackupError):
    """Its end is missing."""

    check = "length"


class BackupDamaged(BackupError):
    """It is not what was written."""

    check = "content"
