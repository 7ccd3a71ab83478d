"""Connects the sandboxes of this node's pods to their networks, whoever asks: the CNI plugin, or a driver directly.

Who the pod is, is told by namespace, name and uid; what interfaces that pod has is what the agent itself knows of it.
Nothing is attached before the rules about the pod are in force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tarmac.agent.network.dialing import interfaces_of
from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import ANNOTATION_INTERFACES
from tarmac.api.schema import JsonObject
from tarmac.datapath.interface import Attached, Datapath
from tarmac.runtimes.interface import NotConnected, PodIdentity, WhyNotConnected

Find = Callable[[str, str, str], JsonObject | None]
"""The pod of this namespace, name and uid, as the agent knows it."""

Covered = Callable[[str, Sequence[AttachedInterface]], Awaitable[None]]
"""Waits until the rules about the pod of this uid, with these interfaces, are in force. Raises Uncovered."""


class Uncovered(Exception):
    """A pod must not be attached yet: the rules about it are not in force. The message says why."""


class PodInterfaces:
    """Implements `tarmac.runtimes.interface.Interfaces`."""

    def __init__(self, datapath: Datapath, find: Find, covered: Covered) -> None:
        self._datapath = datapath
        self._find = find
        self._covered = covered

    async def attach(self, sandbox_id: str, pod: PodIdentity, namespace: str) -> Sequence[AttachedInterface]:
        return await self._connected(
            sandbox_id, pod, lambda interfaces: self._datapath.attach(sandbox_id, namespace, interfaces)
        )

    async def attach_taps(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        """As `attach`, for a machine: its ends are open files, and in no namespace of its own."""
        return await self._connected(
            sandbox_id, pod, lambda interfaces: self._datapath.attach_taps(sandbox_id, interfaces)
        )

    async def _connected(
        self,
        sandbox_id: str,
        pod: PodIdentity,
        attach: Callable[[Sequence[AttachedInterface]], Awaitable[Attached]],
    ) -> Sequence[AttachedInterface]:
        uid, interfaces = self._known(pod)
        try:
            await self._covered(uid, interfaces)
        except Uncovered as why:
            raise NotConnected(WhyNotConnected.NOT_YET, str(why)) from None
        try:
            return (await attach(interfaces)).interfaces
        except Exception:
            # Half of a pod's links is none: a runtime that was told of a failure does not ask for DEL.
            await self._datapath.detach(sandbox_id)
            raise

    async def detach(self, sandbox_id: str) -> None:
        await self._datapath.detach(sandbox_id)

    def attached(self, sandbox_id: str) -> bool:
        return sandbox_id in self._datapath.sandboxes()

    def _known(self, identity: PodIdentity) -> tuple[str, Sequence[AttachedInterface]]:
        """The pod's uid and interfaces. Raises NotConnected."""
        name = f"{identity.namespace}/{identity.name}"
        pod = self._find(identity.namespace, identity.name, identity.uid)
        if pod is None:
            raise NotConnected(WhyNotConnected.UNKNOWN_POD, f"pod {name} is not of this node")
        if ANNOTATION_INTERFACES not in (pod["metadata"].get("annotations") or {}):
            raise NotConnected(WhyNotConnected.NOT_YET, f"pod {name} has been given no interfaces yet")
        try:
            return pod["metadata"]["uid"], interfaces_of(pod)
        except ValueError as error:
            raise NotConnected(WhyNotConnected.BAD_INTERFACES, f"pod {name}: {error}") from error
