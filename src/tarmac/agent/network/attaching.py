"""Connects the sandboxes of this node's pods to their networks, for the CNI plugin and for drivers that call directly.

The caller identifies the pod by namespace, name and uid; the interfaces come from the agent's own knowledge of it. A
pod is attached only after its rules are in force.
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
"""Returns the agent's pod of this namespace, name and uid."""

WaitUntilApplied = Callable[[str, Sequence[AttachedInterface]], Awaitable[None]]
"""Waits until the rules for the pod of this uid, with these interfaces, are in force. Raises RulesNotApplied."""


class RulesNotApplied(Exception):
    """A pod must not be attached yet: its rules are not in force. The message has the reason."""


class InterfaceAttacher:
    """Implements `tarmac.runtimes.interface.Interfaces`."""

    def __init__(self, datapath: Datapath, find: Find, wait_until_applied: WaitUntilApplied) -> None:
        self._datapath = datapath
        self._find = find
        self._wait_until_applied = wait_until_applied

    async def attach(self, sandbox_id: str, pod: PodIdentity, namespace: str) -> Sequence[AttachedInterface]:
        return await self._connected(
            sandbox_id, pod, lambda interfaces: self._datapath.attach(sandbox_id, namespace, interfaces)
        )

    async def attach_taps(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        """As `attach`, for a machine: its ends are open files, without a namespace."""
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
            await self._wait_until_applied(uid, interfaces)
        except RulesNotApplied as why:
            raise NotConnected(WhyNotConnected.NOT_YET, str(why)) from None
        try:
            return (await attach(interfaces)).interfaces
        except Exception:
            # Remove a partial attachment: a runtime that got an error does not call DEL.
            # A cancellation is not handled here: OrphanLinkSweeper removes the links that it leaves.
            await self._datapath.detach(sandbox_id)
            raise

    async def detach(self, sandbox_id: str) -> None:
        await self._datapath.detach(sandbox_id)

    def attached(self, sandbox_id: str) -> bool:
        return sandbox_id in self._datapath.sandboxes()

    def _known(self, identity: PodIdentity) -> tuple[str, Sequence[AttachedInterface]]:
        """Return the pod's uid and interfaces. Raises NotConnected."""
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
