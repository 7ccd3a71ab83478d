"""Verifies that a handler works by running one empty sandbox with it.

A configured handler may still be unable to start a sandbox: its shim is missing, or the host does not support its
platform. Handlers with their own kernel are tested before they are offered, so that a node that cannot run them reports
the reason instead of accepting pods that never start.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from tarmac.runtimes.interface import (
    LinuxSecurity,
    PodIdentity,
    Runtime,
    RuntimeFault,
    RuntimeStatus,
    RuntimeUnreachable,
    SandboxConfig,
)

# The host's network: a short-lived sandbox needs no addresses, and the network may not be ready at this time.
_BARE = LinuxSecurity(host_network=True)


@dataclass(frozen=True, slots=True)
class HandlerCheck:
    """The result of the tests: the status with only the working handlers, and the failures of the rest."""

    status: RuntimeStatus
    failures: dict[str, str]


async def check_handlers(runtime: Runtime, log_directory: str, cgroup_parent: str) -> HandlerCheck:
    """Test every handler that has its own kernel. Raises RuntimeUnreachable."""
    status = await runtime.status()
    failures: dict[str, str] = {}
    for handler in status.handlers:
        if handler.own_kernel and (reason := await _try(runtime, handler.name, log_directory, cgroup_parent)):
            failures[handler.name] = reason
    working = tuple(handler for handler in status.handlers if handler.name not in failures)
    return HandlerCheck(replace(status, handlers=working), failures)


async def _try(runtime: Runtime, handler: str, log_directory: str, cgroup_parent: str) -> str:
    """Return the failure of a handler; empty if it works.

    Raises RuntimeUnreachable, which says nothing about the handler.
    """
    uid = f"trial-{handler}"
    pod = PodIdentity("kube-system", uid, uid)
    config = SandboxConfig(pod, "trial", log_directory, f"{cgroup_parent}/pod{uid}", security=_BARE)
    try:
        await _remove(runtime, uid)  # left by an agent killed during a test
        await runtime.run_sandbox(config, handler)
    except RuntimeUnreachable:
        raise
    except RuntimeFault as refusal:
        return str(refusal)
    finally:
        with contextlib.suppress(RuntimeFault):  # the next test removes it
            await _remove(runtime, uid)
    return ""


async def _remove(runtime: Runtime, uid: str) -> None:
    for sandbox in await runtime.sandboxes(uid):
        await runtime.stop_sandbox(sandbox.id)
        await runtime.remove_sandbox(sandbox.id)
