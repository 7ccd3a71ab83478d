"""Where a node's API is: at the end of its tunnel, else at the address and port that its Node object tells.

Over an address the server shows its own client certificate and the node must show one of the cluster's authority.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.base.clock import Clock
from tarmac.http.clientrequest import Dial, tcp
from tarmac.http.tls import present
from tarmac.server.nodes.tunnels import Tunnels
from tarmac.server.reader import Reader
from tarmac.server.security.certificates import KeyPair

_DAY = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Way:
    """How a node is reached. `host` is what its API is called there."""

    dial: Dial
    host: str


class NodeTls:
    """The server's side of TLS to nodes.

    Its certificate is made anew every day, long before it ends, and whenever other authorities are trusted.
    """

    def __init__(self, ca: Callable[[], str], issue: Callable[[], KeyPair], clock: Clock) -> None:
        self._ca = ca
        self._issue = issue
        self._clock = clock
        self._made = -_DAY
        self._trusted = ""
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """For one connection."""
        trusted = self._ca()
        if self._context is None or trusted != self._trusted or self._clock.monotonic() > self._made + _DAY:
            self._context, self._made = self._new(trusted), self._clock.monotonic()
            self._trusted = trusted
        return self._context

    def _new(self, trusted: str) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=trusted)
        pair = self._issue()
        present(context, pair.certificate, pair.key)
        return context


class Ways:
    """Finds the way to a node."""

    def __init__(self, reader: Reader, tunnels: Tunnels, tls: NodeTls) -> None:
        self._reader = reader
        self._tunnels = tunnels
        self._tls = tls

    def find(self, node: str) -> Way | None:
        """The tunnel if there is one, else the address; None when the node tells of none."""
        dial = self._tunnels.dial(node)
        if dial is not None:
            return Way(dial, node)
        known = self._reader.get("core/nodes", node)
        status = known.get("status", {}) if known is not None else {}
        port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port")
        address = next((each["address"] for each in status.get("addresses") or () if each["type"] == "InternalIP"), "")
        if not port or not address:
            return None
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        return Way(tcp(address, port, self._tls.context()), host)
