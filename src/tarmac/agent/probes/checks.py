"""Executes one probe: exec, HTTP, TCP or gRPC."""

from __future__ import annotations

import asyncio

from tarmac.agent.environment.expansion import expand
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.poddependencies import Connector
from tarmac.agent.probes.dialing import dial, join, port_of, wording
from tarmac.agent.probes.http import MAX_BODY, probe_http
from tarmac.agent.probes.outcome import SUCCESS, ProbeFault, ProbeResult, failure
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration
from tarmac.http.grpc import Code, GrpcConnection, GrpcError
from tarmac.runtimes.interface import Runtime, RuntimeFault
from tarmac.wire.protobuf import varint

MAX_ATTEMPTS = 3

_METHOD = "grpc.health.v1.Health/Check"
_METADATA = (("user-agent", "kube-probe/1.35"),)
_STATUSES = {0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}
_MAX_RESPONSE = 4096


class Checks:
    """Executes probes. Commands are run by the runtime, connections are made by `connect`."""

    def __init__(self, runtime: Runtime, connect: Connector) -> None:
        self._runtime = runtime
        self._connect = connect

    async def check(
        self, pod: AgentPod, container: JsonObject, id: str, probe: JsonObject, address: str
    ) -> ProbeResult:
        """Return the result; retry a probe that cannot be executed. Raises ProbeFault."""
        for _ in range(MAX_ATTEMPTS - 1):
            try:
                return await self._once(pod, container, id, probe, address)
            except ProbeFault:
                # A probe that cannot be executed says nothing about the container: it is tried again at once.
                continue
        return await self._once(pod, container, id, probe, address)

    async def _once(
        self, pod: AgentPod, container: JsonObject, id: str, probe: JsonObject, address: str
    ) -> ProbeResult:
        timeout = float(probe.get("timeoutSeconds") or 1)
        if "exec" in probe:
            return await self._exec(container, id, probe["exec"], timeout)
        if "httpGet" in probe:
            return await probe_http(self._connect, pod.raw, container, probe["httpGet"], address, timeout)
        if "tcpSocket" in probe:
            return await self._tcp(pod, container, probe["tcpSocket"], address, timeout)
        if "grpc" in probe:
            stated = probe["grpc"]
            service = stated.get("service") or ""
            return await probe_grpc(self._connect, pod.raw, address, stated["port"], service, timeout)
        raise ProbeFault(f"missing probe handler for {pod}:{container['name']}")

    async def _exec(self, container: JsonObject, id: str, action: JsonObject, timeout: float) -> ProbeResult:
        known = {each["name"]: each.get("value") or "" for each in container.get("env") or ()}
        command = [expand(each, known) for each in action.get("command") or ()]
        try:
            result = await self._runtime.exec(id, command, timeout)
        except TimeoutError:
            return failure(f'command "{" ".join(command)}" timed out')
        except RuntimeFault as error:
            raise ProbeFault(str(error)) from error
        if result.exit_code == 0:
            return SUCCESS
        return failure((result.stdout + result.stderr)[:MAX_BODY].decode(errors="replace"))

    async def _tcp(
        self, pod: AgentPod, container: JsonObject, action: JsonObject, address: str, timeout: float
    ) -> ProbeResult:
        try:
            port = port_of(action["port"], container)
        except ValueError as error:
            raise ProbeFault(str(error)) from error
        try:
            sock = await dial(self._connect, pod.raw, action.get("host") or address, port, timeout)
        except OSError as error:
            return failure(str(error))
        sock.close()
        return SUCCESS


# gRPC health checks over a socket made in the pod's network; gRPC libraries insist on dialing themselves.
#
# Each of the two messages is one field: field 1 of HealthCheckRequest is the service, field 1 of HealthCheckResponse
# its status.


async def probe_grpc(
    connect: Connector, pod: JsonObject, address: str, port: int, service: str, timeout: float
) -> ProbeResult:
    """Return success if the service reports SERVING."""
    where = join(address, port)
    within = format_duration(timeout)
    try:
        sock = await dial(connect, pod, address, port, timeout)
    except TimeoutError:
        return failure(f'timeout: failed to connect service "{where}" within {within}: context deadline exceeded')
    except OSError as error:
        return failure(f'error: failed to connect service at "{where}": {error}')
    connection = GrpcConnection(where, longest_message=_MAX_RESPONSE)
    try:
        await asyncio.get_running_loop().create_connection(lambda: connection, sock=sock)
    except OSError as error:
        sock.close()
        return failure(f'error: failed to connect service at "{where}": {wording(error)}')
    try:
        answer = await connection.call(_METHOD, _request(service), timeout, _METADATA)
    except GrpcError as error:
        return failure(_wording(error, within))
    finally:
        connection.close()
    name = _STATUSES.get(_status(answer), "of another kind")
    return SUCCESS if name == "SERVING" else failure(f'service unhealthy (responded with "{name}")')


def _wording(error: GrpcError, within: str) -> str:
    if error.code == Code.DEADLINE_EXCEEDED:
        return f"timeout: health rpc did not complete within {within}"
    if error.code == Code.UNIMPLEMENTED:
        return f"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {error}"
    return f"error: health rpc probe failed: {error}"


def _request(service: str) -> bytes:
    named = service.encode()
    return b"\x0a" + varint(len(named)) + named if named else b""


def _status(answer: bytes) -> int:
    """Return the status; an empty message means UNKNOWN, since zero values are not encoded."""
    return answer[1] if len(answer) >= 2 and answer[0] == 0x08 else 0
