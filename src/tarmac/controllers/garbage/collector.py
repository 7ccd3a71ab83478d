"""The garbage collector: observes through the graph, decides on live objects, acts with preconditions.

For an object that may have lost an owner, each reference is looked up live, in the object's own namespace:

    solid      the owner exists with this uid
    dangling   no such object, or an object with that name but another uid
    waiting    the owner is being deleted in the foreground and waits for its dependents

With a solid owner left, the remaining references are removed. Without one, the object is deleted. If an owner waits and
the object has dependents itself, it is deleted in the foreground too, so that the whole tree is deleted bottom-up. A
waiting owner is released when no dependent blocks it any more; an orphaning owner when its dependents no longer refer
to it.

Deletes and patches carry the uid and resourceVersion they were decided on, so after a race they fail and are retried.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.base.log import log
from tarmac.client.client import Client
from tarmac.client.controller import Controller, RetryAfter, TerminalError
from tarmac.client.envelope import EnvelopeMetadata, EnvelopeOwner, metadata_of
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.client.reflector import METADATA_FORM
from tarmac.client.resourceclient import Propagation
from tarmac.client.targets.target import Target
from tarmac.controllers.garbage.graph import FOREGROUND, ORPHAN, Graph, GraphNode
from tarmac.controllers.garbage.monitors import REFRESH_SECONDS, Monitors

REMEMBERED_ABSENT = 1000

_log = log("garbage")


@dataclass(slots=True)
class OwnerStates:
    """An object's references, sorted by the state of their owners."""

    solid: list[EnvelopeOwner] = field(default_factory=list[EnvelopeOwner])
    dangling: list[EnvelopeOwner] = field(default_factory=list[EnvelopeOwner])
    waiting: list[EnvelopeOwner] = field(default_factory=list[EnvelopeOwner])


class UnknownKind(Exception):
    """The owner's kind is not served (any more, or yet), so its state is unknown."""


class GarbageCollector:
    """Collects garbage on one server, over all its resources."""

    def __init__(self, client: Client, recorder: Recorder, workers: int = 8) -> None:
        self._client = client
        self._recorder = recorder
        self.graph = Graph()
        self.controller = Controller(
            "garbage", self.reconcile, clock=client.clock, randomness=client.randomness, workers=workers
        )
        self._monitors = Monitors(client, self.graph, self._queue)
        self._absent: OrderedDict[tuple[str, EnvelopeOwner], None] = OrderedDict()

    async def run(self) -> None:
        """Collect until cancelled. Decisions start only after all resources have been listed."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._monitors.run())
            # In a partial graph, owners that exist would look deleted.
            await self._monitors.synced()
            group.create_task(self.controller.run())

    def _queue(self, uids: Iterable[str]) -> None:
        for uid in sorted(uids):
            self.controller.queue.add(uid)

    async def reconcile(self, uid: str) -> RetryAfter | None:
        """Examine one object."""
        node = self.graph.get(uid)
        # The graph may be behind: it only selects objects, and the live object decides.
        if node is None or node.target is None or not self.graph.needs_attention(node):
            return None
        live = await self._live(node.target, node.namespace, node.name)
        if live is None or live.uid != uid:
            return None  # the watch will report it
        finalizers = live.finalizers or []
        try:
            if live.deletion_timestamp is None:
                await self._examine(node, node.target, live)
            elif ORPHAN in finalizers:
                # Dependents first: once the finalizer is removed the owner is gone, and dependents that still name it
                # are deleted.
                await self._release_dependents(uid)
                await self._remove_finalizer(node.target, live, ORPHAN)
            elif FOREGROUND in finalizers and not self.graph.blockers(uid):
                await self._remove_finalizer(node.target, live, FOREGROUND)
        except UnknownKind as error:
            _log.debug("owner kind is not served, object is retried later", key=live.key, why=str(error))
            return RetryAfter(REFRESH_SECONDS)
        return None

    async def _examine(self, node: GraphNode, target: Target[Any], live: EnvelopeMetadata) -> None:
        verdict = await self._classify(node, live)
        if not verdict.dangling and not verdict.waiting:
            return
        # Also references to waiting owners go: they must not wait for an object that stays.
        if verdict.solid:
            await self._set_references(target, live, verdict.solid)
        elif verdict.waiting and (dependents := self.graph.dependents(live.uid)):
            if any(dependent.foreground for dependent in dependents):
                # A cycle of owners that all wait for each other: stop blocking, or none would ever be deleted.
                live = await self._set_references(target, live, [_unblocking(each) for each in verdict.waiting])
            await self._delete(target, live, "Foreground")
        else:
            await self._delete(target, live, _requested_policy(live))

    async def _classify(self, node: GraphNode, live: EnvelopeMetadata) -> OwnerStates:
        verdict = OwnerStates()
        for reference in live.owner_references or ():
            owner = await self._owner(node, reference)
            if owner is None or owner.uid != reference.uid:
                verdict.dangling.append(reference)
            elif owner.deletion_timestamp is not None and FOREGROUND in (owner.finalizers or ()):
                verdict.waiting.append(reference)
            else:
                verdict.solid.append(reference)
        return verdict

    async def _owner(self, node: GraphNode, reference: EnvelopeOwner) -> EnvelopeMetadata | None:
        """Return the live object that a reference names, in the dependent's namespace or cluster-scoped.

        Raises UnknownKind.
        """
        target = self._monitors.target(reference.api_version, reference.kind)
        if target is None:
            raise UnknownKind(f"{reference.api_version} {reference.kind} is not served")
        if target.namespaced and not node.namespace:
            raise self._unownable(node, reference)
        remembered = (node.namespace, reference)
        # A uid is never reused: an owner once found absent stays absent, and need not be requested again.
        if remembered in self._absent:
            return None
        owner = await self._live(target, node.namespace, reference.name)
        if owner is None or owner.uid != reference.uid:
            self._absent[remembered] = None
            if len(self._absent) > REMEMBERED_ABSENT:
                # Bounded: clients may name any number of owners that never existed.
                self._absent.popitem(last=False)
        return owner

    def _unownable(self, node: GraphNode, reference: EnvelopeOwner) -> TerminalError:
        """Return the permanent error, and record it once as an event: the object can never be collected."""
        why = f"cannot be owned by {reference.kind} {reference.name}: that is namespaced, and this object is not"
        if node.target is not None:
            about = InvolvedObject(node.target.api_version, node.target.kind, node.name, uid=node.uid)
            self._recorder.event(about, "Warning", "OwnerRefInvalidNamespace", why)
        return TerminalError(f"{node.name} {why}")

    async def _release_dependents(self, uid: str) -> None:
        for node in self.graph.dependents(uid):
            if node.target is None:
                continue
            live = await self._live(node.target, node.namespace, node.name)
            if live is not None and live.uid == node.uid:
                kept = [each for each in live.owner_references or () if each.uid != uid]
                if len(kept) != len(live.owner_references or ()):
                    await self._set_references(node.target, live, kept)

    async def _live(self, target: Target[Any], namespace: str, name: str) -> EnvelopeMetadata | None:
        try:
            reply = await self._client.call("GET", target.path(namespace, name), headers={"accept": METADATA_FORM})
        except NotFound:
            return None
        return metadata_of(reply.body)

    async def _set_references(
        self, target: Target[Any], live: EnvelopeMetadata, kept: list[EnvelopeOwner]
    ) -> EnvelopeMetadata:
        references = [_as_json(each) for each in kept]
        return await self._patch(target, live, {"ownerReferences": references or None})

    async def _remove_finalizer(self, target: Target[Any], live: EnvelopeMetadata, finalizer: str) -> None:
        kept = [each for each in live.finalizers or () if each != finalizer]
        await self._patch(target, live, {"finalizers": kept or None})

    async def _patch(self, target: Target[Any], live: EnvelopeMetadata, metadata: JsonObject) -> EnvelopeMetadata:
        conditional = {"uid": live.uid, "resourceVersion": live.resource_version, **metadata}
        resource = self._client.resource(target)
        patched = await resource.patch(live.name, {"metadata": conditional}, live.namespace)
        return EnvelopeMetadata(
            name=live.name,
            namespace=live.namespace,
            uid=live.uid,
            resource_version=patched["metadata"]["resourceVersion"],
            finalizers=live.finalizers,
        )

    async def _delete(self, target: Target[Any], live: EnvelopeMetadata, policy: Propagation) -> None:
        _log.info("deleting dependent object", resource=target.plural, key=live.key, propagation=policy)
        resource = self._client.resource(target)
        await resource.delete(
            # On the judged version: an owner added since makes this a Conflict, and the object is judged again.
            live.name,
            live.namespace,
            propagation=policy,
            uid=live.uid,
            resource_version=live.resource_version,
        )


def _requested_policy(live: EnvelopeMetadata) -> Propagation:
    """Return the propagation policy that a finalizer set in advance asks for."""
    if ORPHAN in (live.finalizers or ()):
        return "Orphan"
    return "Foreground" if FOREGROUND in (live.finalizers or ()) else "Background"


def _unblocking(reference: EnvelopeOwner) -> EnvelopeOwner:
    return msgspec.structs.replace(reference, block_owner_deletion=False)


def _as_json(reference: EnvelopeOwner) -> JsonObject:
    fields: JsonObject = msgspec.to_builtins(reference)
    return {name: value for name, value in fields.items() if value is not None}
