"""Proves that a handler works by running one empty sandbox with it.

A handler that is configured may still be unable to start anything: a shim that is missing, a platform that the machine
does not support. Handlers with a kernel of their own are tried before they are offered, so that a node that cannot run
them says why, instead of taking pods that never start.
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
    SandboxConfig,
    Unreachable,
)

# The host's network: a sandbox that is gone at once needs no addresses, and at this time perhaps nobody gives any.
_BARE = LinuxSecurity(host_network=True)


@dataclass(frozen=True, slots=True)
class Proof:
    """What came of trying: the status with only those handlers that work, and why the others do not."""

    status: RuntimeStatus
    failures: dict[str, str]


async def prove_handlers(runtime: Runtime, log_directory: str, cgroup_parent: str) -> Proof:
    """Try every handler that has a kernel of its own. Raises Unreachable."""
    status = await runtime.status()
    failures: dict[str, str] = {}
    for handler in status.handlers:
        if handler.own_kernel and (reason := await _try(runtime, handler.name, log_directory, cgroup_parent)):
            failures[handler.name] = reason
    working = tuple(handler for handler in status.handlers if handler.name not in failures)
    return Proof(replace(status, handlers=working), failures)


async def _try(runtime: Runtime, handler: str, log_directory: str, cgroup_parent: str) -> str:
    """Why it does not work; empty if it does. Raises Unreachable, which says nothing about the handler."""
    uid = f"trial-{handler}"
    pod = PodIdentity("kube-system", uid, uid)
    config = SandboxConfig(pod, "trial", log_directory, f"{cgroup_parent}/pod{uid}", security=_BARE)
    try:
        await _remove(runtime, uid)  # of an agent that was killed while it tried
        await runtime.run_sandbox(config, handler)
    except Unreachable:
        raise
    except RuntimeFault as refusal:
        return str(refusal)
    finally:
        with contextlib.suppress(RuntimeFault):  # the next trial removes it
            await _remove(runtime, uid)
    return ""


async def _remove(runtime: Runtime, uid: str) -> None:
    for sandbox in await runtime.sandboxes(uid):
        await runtime.stop_sandbox(sandbox.id)
        await runtime.remove_sandbox(sandbox.id)
