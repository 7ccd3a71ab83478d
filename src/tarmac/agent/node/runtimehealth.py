"""Health of the container runtime as of its last answer: polled regularly, with a timeout of 30 seconds.

The node is not ready if the runtime has not answered for that long, or reports that it, or its network, is not ready. A
handler with its own kernel counts only once a sandbox has run with it; one that failed is retried after the runtime was
unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from tarmac.base.clock import Clock
from tarmac.base.duration import format_duration
from tarmac.base.log import log
from tarmac.runtimes.handlercheck import HandlerCheck
from tarmac.runtimes.interface import Runtime, RuntimeFault, RuntimeStatus

TIMEOUT: Final = 30.0
_TRIAL_SECONDS: Final = 60.0
_log = log("agent")


class RuntimeHealth:
    """The runtime's last answer and its age.

    `prove` tests its handlers, `failed` is called for those that do not work. Without `sandboxed_gpus` no sandbox with
    a kernel of its own gets devices.
    """

    def __init__(
        self,
        runtime: Runtime,
        clock: Clock,
        prove: Callable[[], Awaitable[HandlerCheck]],
        failed: Callable[[str, str], None] = lambda _handler, _why: None,
        *,
        sandboxed_gpus: bool = True,
    ) -> None:
        self.status: RuntimeStatus | None = None
        self._runtime = runtime
        self._clock = clock
        self._prove = prove
        self._on_failed = failed
        self._sandboxed_gpus = sandboxed_gpus
        self._proven: set[str] = set()
        self._failed: set[str] = set()
        self._answered_at = -TIMEOUT
        self._why = "it has not been asked yet"

    def handlers(self) -> frozenset[str]:
        """Return the working handlers; the empty name is the runtime's default."""
        return frozenset(("", *(each.name for each in self.status.handlers))) if self.status else frozenset()

    def device_handlers(self) -> frozenset[str]:
        """Return the handlers that pass host devices to containers; the empty name is the runtime's default."""
        offered = (self.status.default, *self.status.handlers) if self.status else ()
        open_ones = (each for each in offered if self._sandboxed_gpus or not each.proxies_devices)
        return frozenset(each.name for each in open_ones if each.devices)

    def own_kernel(self, handler: str) -> bool:
        """Return True if sandboxes of a handler have their own kernel."""
        offered = self.status.handlers if self.status else ()
        return any(each.own_kernel for each in offered if each.name == handler)

    def sandbox_image(self) -> str:
        """Return the image of sandboxes."""
        return self.status.sandbox_image if self.status else ""

    async def refresh(self) -> None:
        """Query the runtime. No answer is a finding, never an error."""
        try:
            status = await self._runtime.status()
            if status.ready:
                await self._try_new(status)
        except RuntimeFault as error:
            self._why = str(error)
            # A runtime that was away may have been upgraded or configured anew: each failed handler gets another test.
            self._failed.clear()
            _log.debug("runtime does not answer", why=self._why)
            return
        self._answered_at = self._clock.monotonic()
        working = tuple(each for each in status.handlers if not each.own_kernel or each.name in self._proven)
        self.status = replace(status, handlers=working)

    @property
    def unready(self) -> str:
        """The reason why no pod can run; empty if pods can."""
        silence = self._clock.monotonic() - self._answered_at
        if self.status is None:
            return f"container runtime is down: {self._why}"
        if silence >= TIMEOUT:
            return f"container runtime is down: it has not answered for {format_duration(round(silence))}: {self._why}"
        if not self.status.ready:
            return f"container runtime not ready: {_reason(self.status)}"
        if not self.status.network_ready:
            return f"container runtime network not ready: NetworkReady=false {_reason(self.status)}"
        return ""

    async def _try_new(self, status: RuntimeStatus) -> None:
        offered = {each.name for each in status.handlers if each.own_kernel}
        if offered <= self._proven | self._failed:
            return
        try:
            async with asyncio.timeout(_TRIAL_SECONDS):
                failures = (await self._prove()).failures
        except TimeoutError:
            failures = dict.fromkeys(offered, f"no trial sandbox started within {_TRIAL_SECONDS:.0f} s")
        if failures:
            await self._runtime.status()  # raises if the runtime died during the test
        for handler, why in failures.items():
            _log.warning("runtime handler failed its test and is not offered", handler=handler, why=why)
            self._on_failed(handler, why)
        self._failed = set(failures)
        self._proven = offered - self._failed


def _reason(status: RuntimeStatus) -> str:
    return f"reason:{status.reason} message:{status.message}"
