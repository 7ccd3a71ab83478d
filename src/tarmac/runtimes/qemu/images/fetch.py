"""Fetching a file over HTTP, going on where an earlier attempt stopped.

What was fetched stays when the connection breaks, also over restarts of the agent, and the next attempt asks for the
rest. A server that has something else by now is found out by the file's sum, not here. Only http and https are spoken,
redirects included, of which there are few. What a server says is never shown: an address that somebody else wrote must
not become a way to read what only the node can reach. Messages tell the status and no more.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tarmac.runtimes.interface.errors import ImageRefused

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

MOST_BYTES: Final = 64 << 30
"""No image is larger, whatever room there is."""

REDIRECTS: Final = 5
_PIECE = 1 << 20
_SILENCE_SECONDS = 30.0
_PARTIAL, _OUT_OF_RANGE = 206, 416

Told = Callable[[int, int], None]
"""Bytes that are here, of bytes that are known to be needed. What it raises ends the fetching."""


def fetch(url: str, target: Path, told: Told) -> None:
    """Have the whole file at `target`; blocks. Raises ImageRefused, and what `told` does."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    where = urlsplit(url).netloc
    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "tarmac", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        with _opener().open(Request(url, headers=headers), timeout=_SILENCE_SECONDS) as answer:
            begins = have if answer.status == _PARTIAL and _first_byte(answer) == have else 0
            if answer.status == _PARTIAL and begins != have:
                raise ImageRefused(f"{where} sent another part of the file than was asked for")
            _take(answer, target, begins, told, where)
    except HTTPError as error:
        error.close()
        if error.code == _OUT_OF_RANGE and have:
            return  # all of it is here, or none of it: the sum will tell
        raise ImageRefused(f"{where} answered {error.code}") from error
    except URLError as error:
        raise ImageRefused(f"{where} cannot be reached: {error.reason}") from error
    except TimeoutError as error:
        raise ImageRefused(f"{where} was silent for {_SILENCE_SECONDS:g} s") from error
    except (OSError, ValueError) as error:
        raise ImageRefused(f"fetching from {where} failed: {error}") from error


def _take(answer: HTTPResponse, target: Path, begins: int, told: Told, where: str) -> None:
    stated = answer.headers.get("Content-Length")
    needed = begins + int(stated) if stated else 0
    most = min(MOST_BYTES, begins + _room(target.parent))
    here = begins
    _check_size(max(here, needed), most)
    with open(target, "r+b" if begins else "wb") as file:
        file.seek(begins)
        while piece := answer.read(_PIECE):
            here += len(piece)
            _check_size(here, most)
            file.write(piece)
            told(here, needed)
        file.truncate()
    if needed and here != needed:
        raise ImageRefused(f"{where} hung up after {here} of {needed} bytes")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ImageRefused(f"the file has at least {size} bytes, and this node takes {most}")


def _room(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


def _first_byte(answer: HTTPResponse) -> int | None:
    """Where a part begins: `bytes 1000-1999/5000`."""
    unit, _, rest = (answer.headers.get("Content-Range") or "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdecimal() else None


def _opener() -> OpenerDirector:
    """Knows http and https and nothing else. Imported here: a node that fetches nothing does not pay for it."""
    from urllib import request

    class Redirects(request.HTTPRedirectHandler):
        max_redirections = REDIRECTS
        max_repeats = REDIRECTS

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        Redirects(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
