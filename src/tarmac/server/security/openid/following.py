"""Following the file of `--authentication-config`: what it says is in force soon after it was changed.

A file that makes no sense, or cannot be read, leaves what was in force, and the log says so, once for each change.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.server.security.openid.configuration import LARGEST, BadConfiguration, read_configuration
from tarmac.server.security.openid.issuers import Issuers

OFTEN = 2.0  # seconds between looks
_log = log("openid")


async def follow(file: Path, content: bytes, issuers: Issuers, clock: Clock) -> NoReturn:
    """Look at the file, whose content was in force at the start, until cancelled."""
    told = ""
    while True:
        await clock.sleep(OFTEN)
        try:
            found = read_limited(file)
            if found == content:
                told = ""
                continue
            settings = read_configuration(found)
        except (OSError, BadConfiguration) as error:
            if str(error) != told:
                told = str(error)
                _log.error("authentication configuration refused, the one before stays", file=str(file), error=told)
            continue
        content, told = found, ""
        await issuers.use(settings)
        _log.info("authentication configuration read", file=str(file), issuers=len(settings))


def read_limited(file: Path) -> bytes:
    """The content; of a file that is too large so much that the reader says so. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(LARGEST + 1)
