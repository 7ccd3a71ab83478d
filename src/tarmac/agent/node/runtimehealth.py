"""Whether the container runtime works, as last heard: asked regularly, and given 30 seconds of silence.

The node is not ready when the runtime has not answered for that long, or answers that it, or its network, is not.
"""

from __future__ import annotations

from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.duration import format_duration
from tarmac.base.log import log
from tarmac.runtimes.interface import Runtime, RuntimeFault, RuntimeStatus

PATIENCE: Final = 30.0
_log = log("agent")


class RuntimeHealth:
    """The runtime's last answer, and how old it is."""

    def __init__(self, runtime: Runtime, clock: Clock) -> None:
        self.status: RuntimeStatus | None = None
        self._runtime = runtime
        self._clock = clock
        self._heard = -PATIENCE
        self._why = "container runtime has not answered yet"

    async def look(self) -> None:
        """Ask the runtime. Its silence is a finding, never an error."""
        try:
            self.status = await self._runtime.status()
        except RuntimeFault as error:
            self._why = str(error)
            _log.debug("the runtime does not answer", why=self._why)
        else:
            self._heard = self._clock.monotonic()

    @property
    def unready(self) -> str:
        """Why no pod can be run; empty when pods can."""
        silence = self._clock.monotonic() - self._heard
        if self.status is None or silence >= PATIENCE:
            since = f" for {format_duration(round(silence))}" if self.status is not None else ""
            return f"container runtime is down: it has not answered{since}: {self._why}"
        if not self.status.ready:
            return f"container runtime not ready: {_reason(self.status)}"
        if not self.status.network_ready:
            return f"container runtime network not ready: NetworkReady=false {_reason(self.status)}"
        return ""


def _reason(status: RuntimeStatus) -> str:
    return f"reason:{status.reason} message:{status.message}"
