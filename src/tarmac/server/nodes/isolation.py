"""Isolates content of pods and nodes in browsers, which get it under the origin of the API server.

A browser may hold a client certificate for that origin, and `kubectl proxy` asks for no credential at all. So a relayed
document is sandboxed: it has an origin of its own, and neither scripts nor forms. Headers that do not concern the
document alone are dropped, and requests for code that would run in a page of the origin are rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlsplit

from tarmac.api.status import Forbidden

SANDBOX: Final = (("Content-Security-Policy", "sandbox"), ("X-Content-Type-Options", "nosniff"))

# About the content itself. Browsers keep learning headers that act on a whole origin, so unknown ones are dropped.
_KEPT: Final = frozenset((
    "accept-ranges", "age", "allow", "cache-control", "connection", "content-disposition", "content-encoding",
    "content-language", "content-length", "content-range", "content-security-policy", "content-type", "date", "etag",
    "expires", "grpc-message", "grpc-status", "keep-alive", "last-modified", "location", "pragma", "retry-after",
    "sec-websocket-accept", "sec-websocket-extensions", "sec-websocket-protocol", "server", "trailer",
    "transfer-encoding", "upgrade", "vary", "via", "warning",
))  # fmt: skip
_OWN: Final = "x-"  # of applications; browsers know few of them
_DROPPED: Final = frozenset(("x-content-type-options", "x-dns-prefetch-control", "x-permitted-cross-domain-policies"))
_CODE: Final = frozenset((
    "audioworklet", "embed", "object", "paintworklet", "script", "serviceworker", "sharedworker", "style", "worker",
    "xslt",
))  # fmt: skip


def check_destination(headers: Mapping[str, str]) -> None:
    """Reject a browser's request for code, such as a script of a pod for a page of the API server. Raises Forbidden.

    The policy of the dashboard admits scripts of its own origin, to which the content of every pod belongs.
    """
    if "service-worker" in headers or headers.get("sec-fetch-dest", "").lower() in _CODE:
        raise Forbidden("proxy: content of pods does not run in pages of the API server; use `kubectl port-forward`")


def isolated(headers: Iterable[tuple[str, str]], host: str, prefix: str) -> list[tuple[str, str]]:
    """Return the headers of a response for a browser. Redirects of `host` to its own paths stay below `prefix`."""
    kept = [
        (name, _below(prefix, value, host) if name.lower() == "location" else value)
        for name, value in headers
        if _is_kept(name.lower())
    ]
    return [*kept, *SANDBOX]


def _is_kept(name: str) -> bool:
    return name in _KEPT or (name.startswith(_OWN) and name not in _DROPPED)


def _below(prefix: str, location: str, host: str) -> str:
    try:
        found = urlsplit(location)
    except ValueError:
        return location
    own = not found.netloc or (found.scheme in ("http", "https") and found.netloc == host)
    if not prefix or not own or not found.path.startswith("/"):
        return location
    rest = found.path + (f"?{found.query}" if found.query else "") + (f"#{found.fragment}" if found.fragment else "")
    return prefix + rest
