"""The opening of RFB (VNC), from both sides and without any I/O: versions, security, and VNC's password.

VNC Authentication encrypts a challenge with DES, keyed by a password of at most eight characters. That is weak against
an observer of the connection and sufficient here: the connection is the loopback interface, the password is random and
lasts as long as the command, and wrong responses are answered slowly.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Generator
from typing import Final

VERSION: Final = b"RFB 003.008\n"
PASSWORD_LENGTH: Final = 8
CHALLENGE_LENGTH: Final = 16
_NONE, _PASSWORD = 1, 2
_OK, _FAILED = bytes(4), b"\0\0\0\x01"
_WRONG = b"wrong password: see the terminal where tarmac vnc runs"

Steps = Generator[int, bytes, None]
"""A side of a conversation: yields the number of bytes that it needs next."""


class RfbFault(Exception):
    """The peer does not speak RFB as expected."""


class WrongPassword(RfbFault):
    """A viewer does not have the password."""


class Conversation:
    """Feeds received bytes to steps and collects the bytes to send. `done` once the steps have ended."""

    def __init__(self, steps: Callable[[list[bytes]], Steps]) -> None:
        self.done = False
        self._out: list[bytes] = []
        self._buffer = bytearray()
        self._steps = steps(self._out)
        self._wanted = next(self._steps)

    @property
    def rest(self) -> bytes:
        """Bytes that were received after the end of the steps."""
        return bytes(self._buffer)

    def receive(self, data: bytes) -> bytes:
        """Take bytes; returns the bytes to send. Raises RfbFault."""
        self._buffer += data
        while not self.done and len(self._buffer) >= self._wanted:
            taken = bytes(self._buffer[: self._wanted])
            del self._buffer[: self._wanted]
            try:
                self._wanted = self._steps.send(taken)
            except StopIteration:
                self.done = True
        return self.pending()

    def pending(self) -> bytes:
        """Return the bytes to send: also what the first step says, and the last words before a fault."""
        out = b"".join(self._out)
        self._out.clear()
        return out


def enter(out: list[bytes]) -> Steps:
    """Open a connection as a client of a server that wants no password. Raises RfbFault."""
    if not (yield 12).startswith(b"RFB 003."):
        raise RfbFault("no VNC server answers")
    out.append(VERSION)
    offered = yield (yield 1)[0]
    if _NONE not in offered:
        raise RfbFault("the VNC server wants a password")
    out.append(bytes((_NONE,)))
    if (yield 4) != _OK:
        raise RfbFault("the VNC server refuses")


def admit(out: list[bytes], password: str, challenge: bytes) -> Steps:
    """Open a connection as a server that admits only viewers with the password. Raises RfbFault."""
    out.append(VERSION)
    minor = _minor((yield 12))
    if minor >= 7:
        out.append(bytes((1, _PASSWORD)))
        if (yield 1)[0] != _PASSWORD:
            raise RfbFault("the viewer wants no password")
    else:  # before 3.7 the server decides
        out.append(_PASSWORD.to_bytes(4))
    out.append(challenge)
    if not hmac.compare_digest((yield CHALLENGE_LENGTH), response(password, challenge)):
        reason = len(_WRONG).to_bytes(4) + _WRONG if minor >= 8 else b""
        out.append(_FAILED + reason)
        raise WrongPassword("a viewer does not have the password")
    out.append(_OK)


def response(password: str, challenge: bytes) -> bytes:
    """Return the challenge, encrypted with the password."""
    # Large, and needed by no other verb. Three equal keys make triple DES the DES of VNC.
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    from cryptography.hazmat.primitives.ciphers import Cipher, modes

    padded = password.encode()[:PASSWORD_LENGTH].ljust(PASSWORD_LENGTH, b"\0")
    key = bytes(int(f"{byte:08b}"[::-1], 2) for byte in padded)  # VNC reads the bits of each byte backwards
    return Cipher(TripleDES(key * 3), modes.ECB()).encryptor().update(challenge)


def _minor(version: bytes) -> int:
    if not version.startswith(b"RFB 003.") or not version[8:11].isdigit():
        raise RfbFault("the viewer does not speak VNC")
    return int(version[8:11])
