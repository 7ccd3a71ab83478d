"""ConfigMaps and Secrets, each watched by name while a pod of this node refers to it.

A node may not list objects it does not use, so there is one watch per object and not one per resource. A watch lingers
after its last pod, as the next pod often refers to the same object. The watch of an immutable object ends once the
object is known. Values are kept only in memory, also while the server is unreachable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from tarmac.agent.sources.references import PodObjectReference, references
from tarmac.api.schema import JsonObject
from tarmac.base.cooperative import CooperativeWork
from tarmac.client.client import Client
from tarmac.client.reflector import Reflector
from tarmac.client.watch import Change

LINGER = 60.0


class _Immutable(msgspec.Struct):
    immutable: bool = False


_flags = msgspec.json.Decoder(_Immutable).decode


class Watched:
    """One object, and the pods that refer to it."""

    def __init__(self, client: Client, reference: PodObjectReference, notify: Callable[[Watched], None]) -> None:
        self.users: set[str] = set()
        self.unused_since: float | None = None
        self.raw: bytes | None = None
        self.task: asyncio.Task[None] | None = None
        self._notify = notify
        self._name = reference.name
        selector = f"metadata.name={reference.name}"
        self._reflector = Reflector(client, reference.target, self, namespace=reference.namespace, fields=selector)

    @property
    def known(self) -> asyncio.Event:
        """Set once the existence of the object is known."""
        return self._reflector.synced

    def replaced(self, state: Sequence[Change]) -> CooperativeWork[None]:
        """Apply a list, which contains this object or nothing."""
        self._take(next((change.raw for change in state if change.metadata.name == self._name), None))
        yield from ()  # must not yield: `known` has to be set before the task is cancelled

    def changed(self, change: Change) -> None:
        """Apply a watch event."""
        self._take(None if change.type == "DELETED" else change.raw)

    def _take(self, raw: bytes | None) -> None:
        changed, self.raw = raw != self.raw, raw
        if changed:
            self._notify(self)
        if raw is not None and _flags(raw).immutable and self.task is not None:
            # Not now: the reflector is applying the list, and sets `known` right after this call.
            asyncio.get_running_loop().call_soon(self.task.cancel)

    async def run(self) -> None:
        """Watch until cancelled."""
        await self._reflector.run()


class WatchedObjects:
    """All objects that the node's pods refer to. `changed` is called with the uid of each pod of a changed object."""

    def __init__(self, client: Client, changed: Callable[[str], None]) -> None:
        self._client = client
        self._changed = changed
        self._objects: dict[PodObjectReference, Watched] = {}
        self._pods: dict[str, set[PodObjectReference]] = {}
        self._group: asyncio.TaskGroup | None = None

    def follow(self, pod: JsonObject) -> None:
        """Watch the current references of a pod, and drop its former ones."""
        uid, wanted = pod["metadata"]["uid"], references(pod)
        before = self._pods.get(uid, set())
        if wanted == before:
            return
        self._pods[uid] = wanted
        for reference in wanted - before:
            self._use(reference, uid)
        for reference in before - wanted:
            self._leave(reference, uid)

    def unfollow(self, uid: str) -> None:
        """Drop the references of a removed pod."""
        for reference in self._pods.pop(uid, ()):
            self._leave(reference, uid)

    def get(self, reference: PodObjectReference) -> Watched | None:
        """Return the watched object, if it is watched."""
        return self._objects.get(reference)

    def __len__(self) -> int:
        return len(self._objects)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            # Set before the loop below: a pod followed from here on starts its own watches.
            self._group = group
            for watched in self._objects.values():
                watched.task = group.create_task(watched.run())
            try:
                while True:
                    await self._client.clock.sleep(LINGER)
                    self._drop_unused()
            finally:
                self._group = None

    def _use(self, reference: PodObjectReference, uid: str) -> None:
        watched = self._objects.get(reference)
        if watched is None:
            watched = self._objects[reference] = Watched(self._client, reference, self._notify)
            if self._group is not None:
                watched.task = self._group.create_task(watched.run())
        watched.users.add(uid)
        watched.unused_since = None

    def _leave(self, reference: PodObjectReference, uid: str) -> None:
        watched = self._objects[reference]
        watched.users.discard(uid)
        if not watched.users:
            # Kept for a while: a pod that is replaced refers to the same objects a moment later.
            watched.unused_since = self._client.clock.monotonic()

    def _drop_unused(self) -> None:
        now = self._client.clock.monotonic()
        for reference, watched in list(self._objects.items()):
            if watched.unused_since is not None and now - watched.unused_since >= LINGER:
                # Before the cancellation: a pod that needs the object from now on gets a new watch.
                del self._objects[reference]
                if watched.task is not None:
                    watched.task.cancel()

    def _notify(self, watched: Watched) -> None:
        for uid in watched.users:
            self._changed(uid)
