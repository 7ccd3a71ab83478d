"""Runs a command in a container of a pod, over exec: input, output and exit status."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from tarmac.base.randomness import Randomness
from tarmac.client.http import HttpConfig
from tarmac.client.websockets import WebSocket, open_websocket
from tarmac.wire.channels import V4, V5, Channel

_MAX_OUTPUT: Final = 4096
_MISSING: Final = re.compile(r"not found|no such file|executable", re.IGNORECASE)
_MISSING_CODES: Final = (126, 127)


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit status of a command. `missing`: the image has no such program."""

    code: int
    message: str

    @property
    def missing(self) -> bool:
        """True if the program is missing: runtimes have various messages, shells these codes."""
        return self.code in _MISSING_CODES or (self.code < 0 and _MISSING.search(self.message) is not None)


class RemoteCommand:
    """A running command. Its standard input stays open until `close`."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._output = bytearray()

    async def send(self, data: bytes) -> None:
        """Write to its standard input."""
        await self._socket.send(bytes((Channel.STDIN,)), data)

    async def ended(self) -> Ended:
        """Wait for its exit."""
        while message := await self._socket.receive():
            channel, data = message[0], message[1:]
            if channel == Channel.ERROR:
                return _ended(data, self._output.decode(errors="replace"))
            if channel in (Channel.STDOUT, Channel.STDERR):
                self._output += data[: _MAX_OUTPUT - len(self._output)]
        return Ended(-1, self._socket.reason or "the connection was lost")

    def close(self) -> None:
        """Close the connection, which ends the command's input."""
        self._socket.close()


async def start_command(
    http: HttpConfig, namespace: str, pod: str, command: Sequence[str], randomness: Randomness
) -> RemoteCommand:
    """Run a command in the first container. Raises ApiError, ClientError."""
    flags = [("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query = urlencode([*flags, *(("command", word) for word in command)])
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec?{query}"
    return RemoteCommand(await open_websocket(http, path, [V5, V4], randomness))


def _ended(data: bytes, output: str) -> Ended:
    try:
        status: dict[str, Any] = msgspec.json.decode(data, type=dict[str, Any])
    except (UnicodeError, msgspec.MsgspecError):
        return Ended(-1, data.decode(errors="replace"))
    if status.get("status") == "Success":
        return Ended(0, output)
    causes = (status.get("details") or {}).get("causes") or ()
    codes = [each["message"] for each in causes if each.get("reason") == "ExitCode"]
    if codes and codes[0].isdecimal():
        return Ended(int(codes[0]), output)
    return Ended(-1, str(status.get("message", "")))
