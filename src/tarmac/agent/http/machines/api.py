"""The node's endpoints for virtual machines.

    /tarmac/v1/console/NS/POD/UID      WebSocket: the serial console; ?stdin=true&takeover=true&since=ATTEMPT:OFFSET
    /tarmac/v1/vnc/NS/POD/UID          WebSocket: raw RFB; ?view=true
    /tarmac/v1/power/NS/POD/UID        POST {"action": "Reboot"|"Reset"|"Pause"|"Resume"}
    /tarmac/v1/recordings/NS/POD/UID   GET: a list; ?session=ID: one of them

Recordings outlive the machine, so they are looked up by name, with or without a pod.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import msgspec

from tarmac.agent.http import execstreams
from tarmac.agent.http.bridging import RawClient
from tarmac.agent.http.kubeletanswers import HttpError, document
from tarmac.agent.http.machines.recordings import Recording, Recordings, content
from tarmac.agent.http.machines.sessions import MachineSessions, Visitor
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339
from tarmac.base.names import dns1123_label, dns1123_subdomain
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.http.streams import stream_of
from tarmac.runtimes.interface import (
    NOT_A_MACHINE,
    CommandStream,
    ConsoleOptions,
    Machines,
    PowerAction,
    SessionOptions,
    StreamOptions,
)
from tarmac.wire.violations import ProtocolViolation
from tarmac.wire.websocket import accept_key, offered

PLACES = ("console", "vnc", "power", "recordings")
_SINCE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})", re.ASCII)
_ACTIONS: tuple[PowerAction, ...] = get_args(PowerAction)
_CHANNELS = StreamOptions(stdin=True, stdout=True, stderr=True, tty=True)
_BINARY = "binary"


class _Power(msgspec.Struct, forbid_unknown_fields=True):
    action: Literal["Reboot", "Reset", "Pause", "Resume"]


_decode_power = msgspec.json.Decoder(_Power).decode


class FindMachine(Protocol):
    """Returns the pod and the id of its container. Raises HttpError."""

    def __call__(self, namespace: str, name: str, uid: str) -> tuple[JsonObject, str]: ...


def is_machine(pod: JsonObject) -> bool:
    """Return True if a pod is a virtual machine."""
    return pod["spec"].get("runtimeClassName") == MACHINE_CLASS


@dataclass(frozen=True, slots=True)
class ConsoleServices:
    """Current and recorded sessions at the machines of a node."""

    sessions: MachineSessions
    recordings: Recordings
    randomness: Randomness


class MachineApi:
    """Serves the machines of a runtime."""

    def __init__(self, runtime: Machines, find: FindMachine, consoles: ConsoleServices) -> None:
        self._runtime = runtime
        self._find = find
        self._sessions = consoles.sessions
        self._recordings = consoles.recordings
        self._randomness = consoles.randomness
        self._places: dict[str, Callable[[Request, list[str]], Awaitable[Answer]]] = {
            "console": self._console,
            "vnc": self._vnc,
            "power": self._power,
            "recordings": self._list_recordings,
        }

    async def answer(self, place: str, request: Request, rest: list[str]) -> Answer:
        """Serve a request; `rest` is NS/POD/UID. Raises HttpError and RuntimeFault."""
        if len(rest) != 3:
            raise HttpError(404, "404 page not found")
        try:
            return await self._places[place](request, rest)
        except OSError as error:
            raise HttpError(503, f"the session cannot be recorded: {error.strerror or error}") from error

    async def attach(self, request: Request, pod: JsonObject, id: str, options: StreamOptions) -> Answer:
        """Serve `kubectl attach` with the console, for clients unaware of consoles.

        Raises HttpError and RuntimeFault.
        """
        made = self._console_options(request, pod, "attach", keyboard=options.stdin)
        try:
            return await execstreams.stream(request, lambda: self._runtime.console_stream(id, made), options)
        except OSError as error:
            raise HttpError(503, f"the session cannot be recorded: {error.strerror or error}") from error

    async def _console(self, request: Request, rest: list[str]) -> Answer:
        pod, identity = self._machine(rest)
        made = self._console_options(request, pod, "console", keyboard=_is_set(request, "stdin"))
        return await execstreams.stream(request, lambda: self._runtime.console_stream(identity, made), _CHANNELS)

    def _console_options(
        self, request: Request, pod: JsonObject, kind: Literal["console", "attach"], *, keyboard: bool
    ) -> ConsoleOptions:
        visitor, session = Visitor.of(request), self._randomness.randbytes(8).hex()
        return ConsoleOptions(
            user=visitor.user,
            session=session,
            keyboard=keyboard,
            takeover=keyboard and _is_set(request, "takeover"),
            since=_since(request),
            attached=kind == "attach",
            recorded=visitor.recorded,
            record=lambda: self._sessions.begin(kind, pod, visitor, session, keyboard),
        )

    async def _vnc(self, request: Request, rest: list[str]) -> Answer:
        pod, identity = self._machine(rest)
        visitor, session = Visitor.of(request), self._randomness.randbytes(8).hex()
        keyboard = not _is_set(request, "view")
        options = SessionOptions(
            user=visitor.user,
            session=session,
            keyboard=keyboard,
            takeover=keyboard and _is_set(request, "takeover"),
            recorded=visitor.recorded,
            record=lambda: self._sessions.begin("vnc", pod, visitor, session, keyboard),
        )
        # Before the stream is opened: a request that cannot be upgraded must not take the keyboard from its user.
        headers = _raw_upgrade(request)
        stream: CommandStream = await self._runtime.display_stream(identity, options)

        def start(client: asyncio.Transport, rest: bytes) -> None:
            RawClient(client, stream).start(rest)

        return UpgradeResponse(start, headers, stream.abort)

    async def _power(self, request: Request, rest: list[str]) -> Answer:
        if request.method != "POST":
            raise HttpError(405, "405: Method Not Allowed")
        _, identity = self._machine(rest)
        try:
            action = _decode_power(request.body).action
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise HttpError(400, f"action: one of {', '.join(_ACTIONS)} is wanted: {error}") from error
        await self._runtime.power(identity, action)
        return document({"action": action})

    async def _list_recordings(self, request: Request, rest: list[str]) -> Answer:
        if request.method != "GET":
            raise HttpError(405, "405: Method Not Allowed")
        namespace, name, _ = rest
        # Both become directory names, so only valid object names are accepted.
        if not (not dns1123_label(namespace) and not dns1123_subdomain(name)):
            raise HttpError(404, "404 page not found")
        after, session = _number(request, "after"), request.param("session")
        if not session:
            found = await self._recordings.of(namespace, name, after)
            return document({"recordings": [_shown(each) for each in found]})
        recording = await self._recordings.find(namespace, name, session, after)
        if recording is None:
            raise HttpError(404, f'there is no recording of a session "{session[:64]}"')
        return stream_of(content(recording), content_type="application/x-asciicast")

    def _machine(self, rest: list[str]) -> tuple[JsonObject, str]:
        namespace, name, uid = rest
        pod, identity = self._find(namespace, name, uid)
        if not is_machine(pod):
            raise HttpError(400, f"{name} is {NOT_A_MACHINE}")
        return pod, identity


def _is_set(request: Request, name: str) -> bool:
    return request.param(name) in ("1", "true")


def _since(request: Request) -> tuple[int, int] | None:
    text = request.param("since")
    if not text:
        return None
    match = _SINCE.fullmatch(text)
    if match is None:
        raise HttpError(400, "since: ATTEMPT:OFFSET is wanted, two numbers")
    return int(match[1]), int(match[2])


def _number(request: Request, name: str) -> float:
    text = request.param(name) or "0"
    # isascii too: isdigit accepts digits of other scripts, and superscripts, which float refuses.
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise HttpError(400, f"{name}: seconds since 1970 are wanted")
    return float(text)


def _shown(recording: Recording) -> JsonObject:
    facts = recording.header.tarmac
    return {
        "session": facts.session,
        "user": facts.user,
        "kind": facts.kind,
        "keyboard": facts.keyboard,
        "began": rfc3339(recording.header.timestamp),
        "ended": rfc3339(recording.ended),
        "bytes": recording.size,
        "instanceUid": facts.instance_uid,
    }


def _raw_upgrade(request: Request) -> list[tuple[str, str]]:
    """Return the upgrade headers of a WebSocket with raw bytes. Raises HttpError."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        raise HttpError(400, "Upgrade request required")
    try:
        key, protocols = offered(request.headers)
    except ProtocolViolation as error:
        raise HttpError(400, str(error)) from error
    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept_key(key))]
    if protocols and _BINARY not in protocols:
        raise HttpError(403, f"unable to upgrade: {_BINARY} is spoken here, not {', '.join(protocols)}")
    return [*headers, ("Sec-WebSocket-Protocol", _BINARY)] if protocols else headers
