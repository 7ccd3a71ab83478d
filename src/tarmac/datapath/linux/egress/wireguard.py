"""The WireGuard link in the node's own namespace: the kernel's driver if available, else Debian's `wireguard-go`.

Both are configured by `wg`. A link of the program ends with its process and the process with its link, so an existing
link works, also one from an earlier agent: a new agent continues with it. The pid file serves to end the process.
Everything here runs in the datapath's thread, which is in the node's namespace, and so are the processes it starts.
"""

from __future__ import annotations

import base64
import binascii
import errno
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tarmac.api.networking.ports import ENCRYPTED_PORT
from tarmac.datapath.egress import EncryptedPeer, Means
from tarmac.datapath.linux import links
from tarmac.datapath.linux.egress.programs import DetachedProgram
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import host_prefix

_KEY_BYTES: Final = 32
_SECONDS: Final = 10
_KEEPALIVE: Final = 25  # seconds; shorter than the timeouts of routers and firewalls between cities
_SESSION: Final = 180  # seconds after which the location of a silent peer is outdated
_TUN: Final = "/dev/net/tun"
_TUN_SET_IFF, _TUN_FLAGS = 0x400454CA, 0x1001  # a tun without packet information
_SOCKETS: Final = Path("/var/run/wireguard")  # where `wg` looks for userspace programs


@dataclass(frozen=True, slots=True)
class WireGuardPrograms:
    """Paths of `wg` and `wireguard-go`."""

    wg: Path | None = None
    wireguard_go: Path | None = None


class WireGuardLink:
    """One link by its name; `pid` is the program's pid file.

    `programs` is called each time, since they may come and go.
    """

    def __init__(self, name: str, pid: Path) -> None:
        self.name = name
        self.programs: Callable[[], WireGuardPrograms] = WireGuardPrograms
        self._program, self._socket = DetachedProgram(["-f", name], pid), _SOCKETS / f"{name}.sock"

    def means(self, netlink: Netlink) -> Means:
        """Return the available means of creating the link, tested just now."""
        programs = self.programs()
        if programs.wg is None:
            return "none"
        if _kernel_has_driver(netlink, f"{self.name}t"):
            return "kernel"
        return "userspace" if programs.wireguard_go is not None and _has_tun() else "none"

    def start(self, netlink: Netlink) -> None:
        """Create the link if there is none; it is usable once `ready`. Raises OSError."""
        if links.link(netlink, self.name) is not None:
            return
        means = self.means(netlink)
        if means == "kernel":
            netlink.request([links.wireguard(self.name)])
        elif means == "userspace":
            self._start_program()
        else:
            raise OSError(errno.EOPNOTSUPP, "neither the kernel nor wireguard-go can encrypt tunnels on this node")

    def ready(self, netlink: Netlink) -> bool:
        """Return True if the link can be configured. Raises OSError if the program has exited."""
        link = links.link(netlink, self.name)
        # The link exists before its program listens: configured too early, `wg` finds none.
        if link is not None and (link.kind == "wireguard" or _listens(self._socket)):
            return True
        if self._program.has_ended:
            raise OSError("wireguard-go ended as soon as it was started")
        return False

    def configure(self, private_key: bytes, peers: Iterable[EncryptedPeer], now: float) -> None:
        """Configure exactly these peers, without disturbing the sessions of those that stay. Raises OSError.

        `now` is in Unix seconds.
        """
        lines = [f"[Interface]\nPrivateKey = {base64.b64encode(private_key).decode()}\n"]
        lines.append(f"ListenPort = {ENCRYPTED_PORT}\n")
        met = self._recent_peers(now)
        for each in peers:
            end = f"[{each.address}]" if ":" in each.address else each.address
            lines.append(f"[Peer]\nPublicKey = {each.public_key}\nAllowedIPs = {host_prefix(each.address)}\n")
            # Also triggers a handshake at once: the side that learned of the peer, or lost its session, begins.
            lines.append(f"PersistentKeepalive = {_KEEPALIVE}\n")
            # A peer behind NAT is reached at the endpoint it last sent from: its own address is unreachable from here.
            lines.append(f"Endpoint = {end}:{ENCRYPTED_PORT}\n" if each.public_key not in met else "")
        # Keys go in by standard input: command lines are visible to all users.
        # `setconf` would end the sessions of all peers.
        self._wg("syncconf", self.name, "/dev/stdin", stdin="".join(lines))

    def configured(self) -> list[EncryptedPeer]:
        """Return the configured peers. Raises OSError."""
        rows = (line.split() for line in self._wg("show", self.name, "allowed-ips").splitlines())
        return [EncryptedPeer(row[1].partition("/")[0], row[0]) for row in rows if len(row) == 2 and row[1] != "(none)"]

    def _recent_peers(self, now: float) -> set[str]:
        """Return the keys of peers with a recent handshake, and so with a known endpoint."""
        rows = (line.split() for line in self._wg("show", self.name, "latest-handshakes").splitlines())
        return {key for key, seconds in rows if now - int(seconds) < _SESSION}

    def transferred(self) -> dict[str, int]:
        """Return the bytes exchanged with each peer, by its key. Raises OSError."""
        rows = (line.split() for line in self._wg("show", self.name, "transfer").splitlines())
        return {key: int(received) + int(sent) for key, received, sent in rows}

    def remove(self, netlink: Netlink) -> None:
        """Delete the link and end the process."""
        link = links.link(netlink, self.name)
        if link is not None:
            netlink.request([links.deletion(link.index)])  # its routes go with it
        self._end_program()

    @property
    def has_program(self) -> bool:
        """True if there is, or was, a process."""
        return self._program.was_started

    def _wg(self, *words: str, stdin: str = "") -> str:
        wg = self.programs().wg
        if wg is None:
            raise OSError(errno.ENOENT, "there is no wg on this node")
        done = subprocess.run(
            [str(wg), *words], check=False, input=stdin, capture_output=True, text=True, timeout=_SECONDS
        )
        if done.returncode:
            raise OSError(f"wg: {done.stderr.strip()}")
        return done.stdout

    def _start_program(self) -> None:
        wireguard_go = self.programs().wireguard_go
        assert wireguard_go is not None
        self._end_program()  # the process of a deleted link ends by itself, but not at once
        self._program.start(wireguard_go, {**os.environ, "LOG_LEVEL": "silent"})

    def _end_program(self) -> None:
        self._program.end()
        self._socket.unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    """Return True if a program accepts connections.

    Its socket exists before that, and `wg` would then report no program at all.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(str(path)) == 0


def is_key(text: str) -> bool:
    """Return True if the text is an X25519 key.

    The last letter has two unused bits: `wg` rejects a text in which they are set, and with it the configuration of
    all peers. A second text of the same key would also pass for a different key.
    """
    try:
        key = base64.b64decode(text, validate=True)
        return len(key) == _KEY_BYTES and base64.b64encode(key).decode() == text
    except (binascii.Error, ValueError):
        return False


def _kernel_has_driver(netlink: Netlink, name: str) -> bool:
    try:
        netlink.request([links.wireguard(name)])
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            return False
        if error.errno != errno.EEXIST:  # left by a killed trial
            raise
    found = links.link(netlink, name)
    if found is not None:
        netlink.request([links.deletion(found.index)])
    return True


def _has_tun() -> bool:
    """Return True if a program can create a tun link. The trial link is deleted when it is closed."""
    try:
        device = os.open(_TUN, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.ioctl(device, _TUN_SET_IFF, struct.pack("16sH22x", b"", _TUN_FLAGS))
    except OSError:
        return False
    finally:
        os.close(device)
    return True
