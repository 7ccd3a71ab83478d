"""Connections to addresses that tenants chose: only to the public internet, unless an administrator allows more.

A node can reach hosts that a tenant cannot: itself, other nodes, the API server, metadata services, private networks.
So every address that a name resolves to is checked, and the connection goes to the checked one: a name that resolves
differently a moment later changes nothing. Redirects use the same connections. A proxy of the node's environment is not
used, since it would resolve names by itself. Messages do not show addresses: a tenant must not learn from them how
private names resolve.
"""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Any, Final
from urllib import request

Network = IPv4Network | IPv6Network
Address = IPv4Address | IPv6Address

_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_ROUTES: Final = Path("/proc/net/fib_trie")
_ADDRESSES6: Final = Path("/proc/net/if_inet6")


class NotPublic(OSError):
    """The host may not be contacted for a tenant. The message does not show its address."""


def own_addresses() -> set[str]:
    """Return the addresses of this host, in the caller's network namespace. Even public ones belong to the node."""
    found: set[str] = set()
    try:
        lines = _ROUTES.read_text().splitlines()
        for before, line in itertools.pairwise(lines):
            if line.strip().startswith("/32 host LOCAL"):
                found.add(before.split("-- ", 1)[-1].strip())
        for line in _ADDRESSES6.read_text().splitlines():
            found.add(str(IPv6Address(int(line.split()[0], 16))))
    except OSError:
        pass  # the address family or /proc is missing: non-public addresses are rejected all the same
    return found


@dataclass(frozen=True, slots=True)
class TenantNetworks:
    """Networks beside the public internet that tenants' images may be fetched from, and networks that they may not."""

    allowed: tuple[Network, ...] = ()
    denied: tuple[Network, ...] = ()
    own: Callable[[], Iterable[str]] = own_addresses

    def permits(self, address: str) -> bool:
        """Tell if a node may connect to this address for a tenant. `denied` takes precedence over `allowed`."""
        found = _plain(ip_address(address.partition("%")[0]))
        if any(found in each for each in self.denied if each.version == found.version):
            return False
        if any(found in each for each in self.allowed if each.version == found.version):
            return True
        return found.is_global and not found.is_multicast and str(found) not in set(self.own())


def _plain(address: Address) -> Address:
    """Return the IPv4 address embedded in an IPv6 address, if any: a gateway would connect to that one."""
    if isinstance(address, IPv4Address):
        return address
    embedded = address.ipv4_mapped or address.sixtofour
    if embedded is None and any(address in each for each in _NAT64):
        embedded = IPv4Address(int(address) & 0xFFFFFFFF)
    return address if embedded is None else embedded


def guarded_handlers(networks: TenantNetworks, check: Callable[[], None]) -> tuple[request.BaseHandler, ...]:
    """Return handlers for http and https that connect only to permitted addresses.

    `check` is called before each read of a socket and raises to end the attempt. The parser of the standard library
    limits lines and headers but neither time nor interim responses: a server that sends them without end, or a head
    byte by byte, would occupy the thread for ever.
    """

    class CheckedSocket(socket.socket):
        def recv_into(self, *args: Any, **kwargs: Any) -> int:
            check()
            return super().recv_into(*args, **kwargs)

    class CheckedTLSSocket(ssl.SSLSocket):
        def recv_into(self, *args: Any, **kwargs: Any) -> int:
            check()
            return super().recv_into(*args, **kwargs)

    def connect(host: str, port: int, timeout: float | None) -> socket.socket:
        return _connect(networks, CheckedSocket, host, port, timeout)

    class Plain(HTTPConnection):
        def connect(self) -> None:
            self.sock = connect(self.host, self.port, self.timeout)

    class Encrypted(HTTPSConnection):
        def connect(self) -> None:
            plain = connect(self.host, self.port, self.timeout)
            self._context.sslsocket_class = CheckedTLSSocket  # pyright: ignore
            self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # pyright: ignore

    class HTTP(request.HTTPHandler):
        def http_open(self, req: request.Request) -> Any:
            return self.do_open(Plain, req)

    class HTTPS(request.HTTPSHandler):
        def https_open(self, req: request.Request) -> Any:
            return self.do_open(Encrypted, req)

    return HTTP(), HTTPS()


def _connect(
    networks: TenantNetworks, sockets: type[socket.socket], host: str, port: int, timeout: float | None
) -> socket.socket:
    """Connect to the first permitted address that responds."""
    found = [
        each for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM) if networks.permits(str(each[4][0]))
    ]
    if not found:
        raise NotPublic("a LocalMachineImage is fetched from public addresses only")
    failure = OSError("no address")
    for family, kind, protocol, _, target in found:
        connection = sockets(family, kind, protocol)
        try:
            connection.settimeout(timeout)
            connection.connect(target)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure
