"""Tests one source: opens a connection from its pod, finds it among the live ones, and compares it with the spec.

A pod may have other connections to the same service, so only a new one counts. It is proof only when the gateway
reports it, and when the external server has responded (UDP need not be).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, Literal

import msgspec

from tarmac.api.egress.connections import ExternalConnection
from tarmac.api.egress.names import end_point
from tarmac.api.status import ApiError
from tarmac.base.clock import Clock
from tarmac.base.tasks import background
from tarmac.cli.egress.commands import Ended, RemoteCommand
from tarmac.cli.egress.sourcepods import CheckedSource, PodOnNode
from tarmac.client.errors import ClientError

TIMEOUT: Final = 8.0  # for a connection to appear
LINGER_SECONDS: Final = 1.0  # the same after its end: the kernel lists it for a while
_PAUSE: Final = 0.25

Start = Callable[[str, str, list[str]], Awaitable[RemoteCommand]]
"""start(namespace, pod, command)"""

Listing = Callable[[], Awaitable[list[ExternalConnection]]]

HOLD_SECONDS: Final = 15
"""The connection closes by itself after this, in case the client is gone."""

_PYTHON: Final = (
    "import socket,sys,select;a,p,k=sys.argv[1:];"
    "s=socket.socket(socket.AF_INET6 if ':' in a else socket.AF_INET,"
    "socket.SOCK_DGRAM if k=='udp' else socket.SOCK_STREAM);"
    f"s.settimeout({HOLD_SECONDS});s.connect((a,int(p)));k=='udp' and s.send(b'\\n');"
    f"select.select([sys.stdin],[],[],{HOLD_SECONDS})"
)
# The `:` after `read` keeps bash from exiting with read's status on a timeout.
_BASH: Final = f'exec 3<>"/dev/$2/$0/$1" && {{ [ "$2" = tcp ] || echo >&3; read -r -t {HOLD_SECONDS}; :; }}'


class Dialled(msgspec.Struct, frozen=True):
    """The address that pods dial."""

    address: str
    port: int
    protocol: Literal["tcp", "udp"]


class CheckResult(msgspec.Struct, rename="camel", frozen=True):
    """The result of one source; `result` is `OK` or a reason."""

    source: str
    pod: str = ""
    node: str = ""
    gateway: str = ""
    seen_as: str = ""
    seen_port: int = 0
    expected: str = ""
    result: str = ""
    message: str = ""


class SourceChecker:
    """Tests sources of one ExternalService."""

    def __init__(self, start: Start, listing: Listing, dialled: Dialled, clock: Clock) -> None:
        self._start, self._listing, self._dialled, self._clock = start, listing, dialled, clock

    async def check(self, source: CheckedSource) -> CheckResult:
        """Test a source from its first pod."""
        base = CheckResult(source.service, expected=source.expected)
        if source.trouble is not None:
            return _with_result(base, source.trouble.status_reason, source.trouble.message)
        if source.status.reason and not source.status.pods_programmed:
            return _with_result(base, source.status.reason, source.status.message)
        if not source.pods:
            return _with_result(base, "NoPods", f"No pod stands behind Service {source.service}.")
        pod = source.pods[0]
        base = msgspec.structs.replace(base, pod=pod.name, node=pod.node)
        try:
            return await self._from(pod, base)
        except ApiError as error:
            return _with_result(base, error.status_reason, error.message)
        except (ClientError, OSError) as error:
            return _with_result(base, "Disconnected", str(error))

    async def _from(self, pod: PodOnNode, base: CheckResult) -> CheckResult:
        before = Counter(_identity(each) for each in await self._listing())
        namespace, _, name = pod.name.partition("/")
        for tool in TOOLS:
            command = tool(self._dialled.address, self._dialled.port, self._dialled.protocol)
            running = await self._start(namespace, name, command)
            try:
                async with background(running.ended(), "the command") as ending:
                    if self._dialled.protocol == "udp":
                        await running.send(FIRST_INPUT)
                    found = await self._seen(pod, before, ending)
                ended = ending.result() if ending.done() and not ending.cancelled() else None
            finally:
                running.close()  # also after Ctrl-C: the pod's connection ends with it
            if found is not None or ended is None or not ended.missing:
                return self._judged(base, found, ended)
        return _with_result(base, "NoTool", "Not proven: the image has none of nc, python3 and bash.")

    async def _seen(
        self, pod: PodOnNode, before: Counter[object], ending: asyncio.Task[Ended]
    ) -> ExternalConnection | None:
        """Return the new connection, complete if possible within the timeout."""
        until, found = self._clock.monotonic() + TIMEOUT, None
        while True:
            if ending.done():
                if ending.result().missing:
                    return None
                until = min(until, self._clock.monotonic() + LINGER_SECONDS)
            for each in _new(await self._listing(), before):
                if self._is_ours(each, pod):
                    found = each
                    if _is_complete(each):
                        return each
            if self._clock.monotonic() >= until:
                return found
            await self._clock.sleep(_PAUSE)

    def _is_ours(self, connection: ExternalConnection, pod: PodOnNode) -> bool:
        dialled = end_point(self._dialled.address, self._dialled.port)
        own = (connection.pod, connection.dialled, connection.protocol.lower(), connection.direction)
        return own == (pod.name, dialled, self._dialled.protocol, "out")

    def _judged(self, base: CheckResult, found: ExternalConnection | None, ended: Ended | None) -> CheckResult:
        if found is None:
            dialled = end_point(self._dialled.address, self._dialled.port)
            if ended is not None and ended.code:
                return _with_result(
                    base, "Refused", f"{dialled} could not be dialled: {ended.message.strip() or 'refused'}"
                )
            return _with_result(base, "NotSeen", f"A connection to {dialled} was not seen on the pod's node.")
        seen = msgspec.structs.replace(
            base, gateway=found.gateway, seen_as=found.source_ip, seen_port=found.source_port, node=found.node
        )
        if not found.source_ip:
            return _with_result(seen, "NoGateway", "The pod's node sent it on, and no gateway knows it.")
        if found.source_ip not in seen.expected.split(","):
            return _with_result(
                seen, "WrongSource", f"{found.target} sees {found.source_ip} instead of {seen.expected}."
            )
        if not _is_complete(found):
            return _with_result(
                seen, "NoAnswer", f"It leaves as {found.source_ip}, and {found.target} does not answer."
            )
        return _with_result(seen, "OK", "")


def _is_complete(connection: ExternalConnection) -> bool:
    return bool(connection.source_ip) and (connection.bytes_in > 0 or connection.protocol != "TCP")


def _new(listed: Iterable[ExternalConnection], before: Counter[object]) -> Iterator[ExternalConnection]:
    """Yield connections missing in `before`. Several may look the same, so they are counted."""
    seen: Counter[object] = Counter()
    for each in listed:
        identity = _identity(each)
        seen[identity] += 1
        if seen[identity] > before[identity]:
            yield each


def _identity(connection: ExternalConnection) -> object:
    """Return the constant part of a connection. Its port is known once a gateway has it."""
    return connection.pod, connection.dialled, connection.source_ip, connection.source_port, connection.since


def _with_result(base: CheckResult, result: str, message: str) -> CheckResult:
    return msgspec.structs.replace(base, result=result, message=message)


# Opens a connection from inside a pod with a tool of its image, and keeps it open for a while.
#
# Nothing is sent over a TCP connection. UDP has no connections, so one datagram with a newline is sent.


def _nc(address: str, port: int, protocol: str) -> list[str]:
    return ["nc", *(["-u"] if protocol == "udp" else []), "-w", str(HOLD_SECONDS), address, str(port)]


def _python(address: str, port: int, protocol: str) -> list[str]:
    return ["python3", "-c", _PYTHON, address, str(port), protocol]


def _bash(address: str, port: int, protocol: str) -> list[str]:
    return ["bash", "-c", _BASH, address, str(port), protocol]


TOOLS: Final[tuple[Callable[[str, int, str], list[str]], ...]] = (_nc, _python, _bash)
"""The commands to try, in this order, for an address, a port and `tcp` or `udp`."""

FIRST_INPUT: Final = b"\n"
"""The input after which `nc` sends a datagram."""
