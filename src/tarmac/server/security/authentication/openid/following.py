"""Watches the `--authentication-config` file and applies changes.

If the file is invalid or unreadable, the previous configuration stays in force, and each such change is logged once.
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.server.security.authentication.openid.configuration import MAX_FILE, BadConfiguration, read_configuration
from tarmac.server.security.authentication.openid.issuers import Issuers

POLL_INTERVAL = 2.0  # poll interval in seconds
_log = log("openid")


async def follow(file: Path, content: bytes, issuers: Issuers, clock: Clock) -> NoReturn:
    """Poll the file until cancelled. `content` is the content in force at the start."""
    told = ""
    while True:
        await clock.sleep(POLL_INTERVAL)
        try:
            found = read_limited(file)
            if found == content:
                told = ""
                continue
            settings = read_configuration(found)
        except (OSError, BadConfiguration) as error:
            if str(error) != told:
                told = str(error)
                _log.error(
                    "authentication configuration rejected, keeping the previous one", file=str(file), error=told
                )
            continue
        content, told = found, ""
        await issuers.use(settings)
        _log.info("authentication configuration applied", file=str(file), issuers=len(settings))


def read_limited(file: Path) -> bytes:
    """Return the content, truncated just above the limit so that the parser rejects it. Raises OSError."""
    with file.open("rb") as opened:
        return opened.read(MAX_FILE + 1)
