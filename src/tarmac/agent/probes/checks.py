"""Executes one probe: exec, HTTP, TCP or gRPC."""

from __future__ import annotations

from tarmac.agent.environment.expansion import expand
from tarmac.agent.model.interfaces import Connector
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.probes.dialing import dial, port_of
from tarmac.agent.probes.grpc import probe_grpc
from tarmac.agent.probes.http import MAX_BODY, probe_http
from tarmac.agent.probes.outcome import SUCCESS, ProbeFault, ProbeResult, failure
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Runtime, RuntimeFault

MAX_ATTEMPTS = 3


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
            said = await self._runtime.exec(id, command, timeout)
        except TimeoutError:
            return failure(f'command "{" ".join(command)}" timed out')
        except RuntimeFault as error:
            raise ProbeFault(str(error)) from error
        if said.exit_code == 0:
            return SUCCESS
        return failure((said.stdout + said.stderr)[:MAX_BODY].decode(errors="replace"))

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
