"""Fetches a file over HTTP and resumes interrupted transfers.

A partial file survives broken connections and restarts of the agent; the next attempt requests the rest. If the
server's file has changed meanwhile, the checksum reveals it, not this module. Only http and https are supported, in
redirects too, of which at most five are followed. Response bodies are never shown: a URL written by a tenant must not
become a way to read from servers that only the node can reach. Messages contain just the status.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tarmac.runtimes.interface.errors import ImageRefused
from tarmac.runtimes.qemu.images.guard import TenantNetworks, guarded_handlers
from tarmac.runtimes.qemu.images.registry import RemoteFile

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from urllib.request import OpenerDirector

MAX_BYTES: Final = 64 << 30
"""Maximum size of an image, even with more free space."""

REDIRECTS: Final = 5
_CHUNK_SIZE = 1 << 20
_SILENCE_SECONDS = 30.0
_PARTIAL, _OUT_OF_RANGE = 206, 416

TENANT_TIMEOUT: Final = 3600.0
"""Timeout of one attempt for a tenant. The partial file stays, and the next attempt resumes."""

SPARE: Final = 0.1
"""Fraction of the filesystem that images of tenants leave free."""

Report = Callable[[int, int], None]
"""Called with the bytes present and the bytes needed (0: unknown). An exception from it aborts the transfer."""


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Limits of a URL written by a tenant. `now`: a monotonic clock."""

    networks: TenantNetworks
    max_bytes: int
    now: Callable[[], float]


class HostUnreachable(ImageRefused):
    """The host did not respond."""


def fetch(
    url: str, target: Path, report: Report, limits: TenantLimits | None = None, max_bytes: int | None = None
) -> None:
    """Fetch the whole file to `target`; blocks. `limits`: for a tenant. Raises ImageRefused, exceptions of `report`."""
    _fetch(RemoteFile(urlsplit(url).netloc, url, _opener(limits), {}), target, report, limits, max_bytes)


def fetch_uploaded(file: RemoteFile, target: Path, report: Report, limits: TenantLimits) -> None:
    """Fetch a file that a tenant has uploaded, in the same way."""
    check = _until(limits)  # the opener is the platform's: only the body needs a limit

    def checked(here: int, needed: int) -> None:
        check()
        report(here, needed)

    _fetch(file, target, checked, limits, None)


def _fetch(file: RemoteFile, target: Path, report: Report, limits: TenantLimits | None, max_bytes: int | None) -> None:
    from urllib.error import HTTPError, URLError
    from urllib.request import Request

    where = file.name
    have = target.stat().st_size if target.exists() else 0
    headers = {"User-Agent": "tarmac", **({"Range": f"bytes={have}-"} if have else {}), **file.headers}
    try:
        with file.opener.open(Request(file.url, headers=headers), timeout=_SILENCE_SECONDS) as answer:
            begins = have if answer.status == _PARTIAL and _first_byte(answer) == have else 0
            if answer.status == _PARTIAL and begins != have:
                raise ImageRefused(f"{where} sent another part of the file than was asked for")
            _take(answer, target, begins, report, where, _most(target, begins, limits, max_bytes))
    except HTTPError as error:
        error.close()
        if error.code == _OUT_OF_RANGE and have:
            return  # all of it is here, or the file is wrong: the checksum tells
        raise ImageRefused(f"{where} answered {error.code}") from error
    except URLError as error:
        raise HostUnreachable(f"{where} cannot be reached: {error.reason}") from error
    except TimeoutError as error:
        raise HostUnreachable(f"{where} was silent for {_SILENCE_SECONDS:g} s") from error
    except (OSError, ValueError) as error:
        raise ImageRefused(f"fetching from {where} failed: {error}") from error


def _until(limits: TenantLimits) -> Callable[[], None]:
    """Return a check that ends an attempt of a tenant after `TENANT_TIMEOUT`."""
    until = limits.now() + TENANT_TIMEOUT

    def check() -> None:
        if limits.now() > until:
            raise ImageRefused(f"the file was not here after {TENANT_TIMEOUT:g} s")

    return check


def _most(target: Path, begins: int, limits: TenantLimits | None, max_bytes: int | None) -> int:
    stated = limits.max_bytes if limits is not None else max_bytes or MAX_BYTES
    return min(stated, begins + room(target.parent, limits is not None))


def _take(answer: HTTPResponse, target: Path, begins: int, report: Report, where: str, most: int) -> None:
    stated = answer.headers.get("Content-Length")
    needed = begins + int(stated) if stated else 0
    here = begins
    _check_size(max(here, needed), most)
    with open(target, "r+b" if begins else "wb") as file:
        file.seek(begins)
        while piece := answer.read1(_CHUNK_SIZE):  # `read` would wait for a full piece, however slowly it arrives
            here += len(piece)
            _check_size(here, most)
            file.write(piece)
            report(here, needed)
        file.truncate()
    if needed and here != needed:
        raise ImageRefused(f"{where} hung up after {here} of {needed} bytes")


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise ImageRefused(f"the file has at least {size} bytes, and this node takes {most}")


def room(folder: Path, tenant: bool) -> int:
    """Return the bytes available for an image: all free ones, for a tenant minus `SPARE` of the filesystem."""
    found = os.statvfs(folder)
    spared = found.f_blocks * SPARE if tenant else 0
    return max(0, int((found.f_bavail - spared) * found.f_frsize))


def _first_byte(answer: HTTPResponse) -> int | None:
    """Return the start of a partial response: `bytes 1000-1999/5000`."""
    unit, _, rest = (answer.headers.get("Content-Range") or "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isdecimal() else None


def _opener(limits: TenantLimits | None) -> OpenerDirector:
    """Return an opener for http and https only. Imports here: a node that never fetches does not pay for them."""
    from urllib import request

    class Redirects(request.HTTPRedirectHandler):
        max_redirections = REDIRECTS
        max_repeats = REDIRECTS

    opener = request.OpenerDirector()
    if limits is None:
        connecting = (request.ProxyHandler(), request.HTTPHandler(), request.HTTPSHandler())
    else:
        connecting = guarded_handlers(limits.networks, _until(limits))
    for handler in (
        *connecting,
        Redirects(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
        request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener
