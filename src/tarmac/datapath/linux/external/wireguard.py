"""WireGuard's link in the node's own namespace: the kernel's driver where there is one, else Debian's `wireguard-go`.

Both are told by `wg`. A link of the program's ends with its process and the process with its link, so a link that is
there is one that works, whoever started it: a new agent just goes on with it. The file with the process's number is for
ending it; everything here runs in the datapath's thread, which is in the node's namespace, and so is what it starts.
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

from tarmac.datapath.external import Means, TunnelPeer
from tarmac.datapath.linux import links
from tarmac.datapath.linux.external.programs import DetachedProgram
from tarmac.datapath.linux.netlink import Netlink
from tarmac.datapath.linux.routing import host_prefix

_KEY_BYTES: Final = 32
_SECONDS: Final = 10
_KEEPALIVE: Final = 25  # seconds; what routers and firewalls between cities remember lasts longer
_TUN: Final = "/dev/net/tun"
_TUN_SET_IFF, _TUN_FLAGS = 0x400454CA, 0x1001  # a tun without packet information
_SOCKETS: Final = Path("/var/run/wireguard")  # where `wg` looks for programs


@dataclass(frozen=True, slots=True)
class WireGuardPrograms:
    """`wg` and `wireguard-go`, where they are."""

    wg: Path | None = None
    wireguard_go: Path | None = None


class WireGuardLink:
    """One link by its name; `pid` is the file that tells the program's process. `programs` may come and go."""

    def __init__(self, name: str, pid: Path) -> None:
        self.name = name
        self.programs: Callable[[], WireGuardPrograms] = WireGuardPrograms
        self._program, self._socket = DetachedProgram(["-f", name], pid), _SOCKETS / f"{name}.sock"

    def means(self, netlink: Netlink) -> Means:
        """By what it could be made, as tried just now."""
        programs = self.programs()
        if programs.wg is None:
            return "none"
        if _kernel_has_driver(netlink, f"{self.name}t"):
            return "kernel"
        return "userspace" if programs.wireguard_go is not None and _has_tun() else "none"

    def start(self, netlink: Netlink) -> None:
        """Make the link, if there is none; it is there once `ready`. Raises OSError."""
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
        """Whether the link can be told. Raises OSError when the program has ended instead."""
        link = links.link(netlink, self.name)
        if link is not None and (link.kind == "wireguard" or _listens(self._socket)):
            return True
        if self._program.has_ended:
            raise OSError("wireguard-go ended as soon as it was started")
        return False

    def tell(self, private_key: bytes, peers: Iterable[TunnelPeer]) -> None:
        """Speak with these peers and no others; what goes on with those that stay is not disturbed. Raises OSError."""
        said = [f"[Interface]\nPrivateKey = {base64.b64encode(private_key).decode()}\n"]
        said.append(f"ListenPort = {links.ENCRYPTED_PORT}\n")
        for each in peers:
            end = f"[{each.address}]" if ":" in each.address else each.address
            said.append(f"[Peer]\nPublicKey = {each.public_key}\nAllowedIPs = {host_prefix(each.address)}\n")
            # Said at once, too: whoever has just learned of the other, or has lost what they had agreed on, begins.
            said.append(f"Endpoint = {end}:{links.ENCRYPTED_PORT}\nPersistentKeepalive = {_KEEPALIVE}\n")
        # Keys go in by standard input: command lines are for everybody to see.
        self._wg("syncconf", self.name, "/dev/stdin", told="".join(said))

    def transferred(self) -> dict[str, int]:
        """Bytes exchanged with each peer, by its key. Raises OSError."""
        rows = (line.split() for line in self._wg("show", self.name, "transfer").splitlines())
        return {key: int(received) + int(sent) for key, received, sent in rows}

    def remove(self, netlink: Netlink) -> None:
        """Leave neither the link nor a process."""
        link = links.link(netlink, self.name)
        if link is not None:
            netlink.request([links.deletion(link.index)])  # its routes go with it
        self._end_program()

    @property
    def has_program(self) -> bool:
        """Whether there is, or was, a process."""
        return self._program.was_started

    def _wg(self, *words: str, told: str = "") -> str:
        wg = self.programs().wg
        if wg is None:
            raise OSError(errno.ENOENT, "there is no wg on this node")
        done = subprocess.run(
            [str(wg), *words], check=False, input=told, capture_output=True, text=True, timeout=_SECONDS
        )
        if done.returncode:
            raise OSError(f"wg: {done.stderr.strip()}")
        return done.stdout

    def _start_program(self) -> None:
        wireguard_go = self.programs().wireguard_go
        assert wireguard_go is not None
        self._end_program()  # one whose link somebody took away ends by itself, but not at once
        self._program.start(wireguard_go, {**os.environ, "LOG_LEVEL": "silent"})

    def _end_program(self) -> None:
        self._program.end()
        self._socket.unlink(missing_ok=True)


def _listens(path: Path) -> bool:
    """Whether a program answers: its socket is there before it does, and `wg` would take that for no program at all."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(str(path)) == 0


def is_key(text: str) -> bool:
    """Whether it is a key of X25519."""
    try:
        return len(base64.b64decode(text, validate=True)) == _KEY_BYTES
    except (binascii.Error, ValueError):
        return False


def _kernel_has_driver(netlink: Netlink, name: str) -> bool:
    try:
        netlink.request([links.wireguard(name)])
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.ENODEV):
            return False
        if error.errno != errno.EEXIST:  # of a trial that was killed
            raise
    found = links.link(netlink, name)
    if found is not None:
        netlink.request([links.deletion(found.index)])
    return True


def _has_tun() -> bool:
    """Whether a program can make a link: one is made, and goes when it is closed."""
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
