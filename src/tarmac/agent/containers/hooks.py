"""Runs the postStart and preStop hooks of containers."""

from __future__ import annotations

from tarmac.agent.model.pod import AgentPod
from tarmac.agent.model.poddependencies import Connector
from tarmac.agent.probes.http import get, request_of
from tarmac.agent.probes.outcome import ProbeFault
from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock
from tarmac.runtimes.interface import Runtime, RuntimeFault

EXEC_TIMEOUT = 24 * 3600.0
HTTP_TIMEOUT = 30.0


class HookFailed(Exception):
    """The hook failed. The message may contain output of the container and must not be put into an event."""


class Hooks:
    """Runs hooks: a command in the container, an HTTP request, or a sleep."""

    def __init__(self, runtime: Runtime, connect: Connector, clock: Clock) -> None:
        self._runtime = runtime
        self._connect = connect
        self._clock = clock

    async def run(self, pod: AgentPod, container: JsonObject, id: str, hook: JsonObject, address: str) -> None:
        """Run the hook to completion, without a timeout of its own. Raises HookFailed."""
        where = f'for Container "{container["name"]}" in Pod "{pod}" failed - error'
        if "exec" in hook:
            command = hook["exec"].get("command") or []
            try:
                result = await self._runtime.exec(id, command, EXEC_TIMEOUT)
            except (RuntimeFault, TimeoutError) as error:
                raise HookFailed(f"Exec lifecycle hook ({command}) {where}: {error}") from error
            if result.exit_code != 0:
                output = (result.stdout + result.stderr).decode(errors="replace")
                code = f"command exited with {result.exit_code}"
                raise HookFailed(f'Exec lifecycle hook ({command}) {where}: {code}, message: "{output}"')
        elif "httpGet" in hook:
            await self._http(pod, container, hook["httpGet"], address, where)
        elif "sleep" in hook:
            await self._clock.sleep(hook["sleep"].get("seconds") or 0)

    async def _http(self, pod: AgentPod, container: JsonObject, action: JsonObject, address: str, where: str) -> None:
        """Send the request. Any HTTP response counts as success, as with kubelet."""
        try:
            url, headers = request_of(action, container, address, "lifecycle")
            await get(self._connect, pod.raw, url, headers, HTTP_TIMEOUT)
        except (OSError, EOFError, ValueError, ProbeFault) as error:
            path = action.get("path") or "/"
            why = str(error) or "context deadline exceeded"
            raise HookFailed(f"HTTP lifecycle hook ({path}) {where}: {why}") from error
