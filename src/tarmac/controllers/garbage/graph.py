"""Ownership graph over all objects of the server, in a few hundred bytes each.

Nodes are keyed by uid and know their owners (from their references) and their dependents. An owner that is referred to
but has not been observed is a *virtual* node: it only holds its dependents. The graph reflects the watches so far and
may be behind; it decides which objects are examined, never which are deleted. `observe` and `forget` therefore return
the uids to examine.
"""

from __future__ import annotations

from sys import intern
from typing import Any

from tarmac.base.compactset import CompactSet, added, members, removed
from tarmac.client.envelope import EnvelopeMetadata, EnvelopeOwner
from tarmac.client.targets.target import Target

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class GraphNode:
    """One object, or one uid that objects name as their owner."""

    __slots__ = ("deleting", "dependents", "foreground", "name", "namespace", "orphaning", "owners", "target", "uid")

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.target: Target[Any] | None = None  # None: virtual
        self.namespace = ""
        self.name = ""
        self.owners: tuple[EnvelopeOwner, ...] = ()
        self.dependents: CompactSet = None
        self.deleting = False
        self.foreground = False  # deleting, and waiting for its dependents to go first
        self.orphaning = False  # deleting, and waiting for its dependents to be released

    @property
    def virtual(self) -> bool:
        """True if it is referred to but not observed."""
        return self.target is None


class Graph:
    """The nodes, and the objects to examine after each change."""

    def __init__(self) -> None:
        self._nodes: dict[str, GraphNode] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def get(self, uid: str) -> GraphNode | None:
        """Return the node of a uid."""
        return self._nodes.get(uid)

    def dependents(self, uid: str) -> list[GraphNode]:
        """Return the objects that name this uid as an owner."""
        node = self._nodes.get(uid)
        return [self._nodes[each] for each in members(node.dependents)] if node else []

    def observe(self, target: Target[Any], metadata: EnvelopeMetadata) -> set[str]:
        """Record a new or changed object."""
        node = self._node(metadata.uid)
        affected = self._set_owners(node, tuple(_interned(each) for each in metadata.owner_references or ()))
        node.target, node.namespace, node.name = target, intern(metadata.namespace), intern(metadata.name)
        finalizers = metadata.finalizers or ()
        node.deleting = metadata.deletion_timestamp is not None
        node.orphaning = node.deleting and ORPHAN in finalizers
        was_foreground, node.foreground = node.foreground, node.deleting and FOREGROUND in finalizers
        # Its dependents had a solid owner until now, and must be judged again.
        if node.foreground and not was_foreground:
            affected.update(members(node.dependents))
        if self.needs_attention(node):
            affected.add(node.uid)
        return affected

    def forget(self, uid: str) -> set[str]:
        """Record that an object is deleted."""
        node = self._nodes.get(uid)
        if node is None or node.virtual:
            return set()
        # It stays as a virtual node while dependents name it, so that they are still found.
        affected = self._set_owners(node, ())
        node.target, node.deleting, node.foreground, node.orphaning = None, False, False, False
        self._drop_if_unused(node)
        return affected.union(members(node.dependents))

    def forget_others(self, target: Target[Any], present: set[str]) -> set[str]:
        """Forget all objects of a resource that a fresh list of it does not contain."""
        gone = [node.uid for node in self._nodes.values() if node.target is target and node.uid not in present]
        affected: set[str] = set()
        for uid in gone:
            affected |= self.forget(uid)
        return affected

    def needs_attention(self, node: GraphNode) -> bool:
        """Return True if the server must be asked about this object: it may have lost an owner, or is being deleted."""
        if node.deleting:
            return node.foreground or node.orphaning
        return any(not self._holds(node, reference) for reference in node.owners)

    def blockers(self, uid: str) -> list[GraphNode]:
        """Return the dependents that must be deleted before their owner."""
        return [
            node
            for node in self.dependents(uid)
            if any(reference.uid == uid and reference.block_owner_deletion for reference in node.owners)
        ]

    def _holds(self, node: GraphNode, reference: EnvelopeOwner) -> bool:
        """Return True if the owner exists as described, may own the object, and is not in foreground deletion."""
        owner = self._nodes.get(reference.uid)
        return (
            owner is not None
            and owner.target is not None
            and not owner.foreground
            and owner.target.kind == reference.kind
            and owner.target.group == reference.api_version.rpartition("/")[0]
            and owner.name == reference.name
            and owner.namespace in ("", node.namespace)
        )

    def _set_owners(self, node: GraphNode, owners: tuple[EnvelopeOwner, ...]) -> set[str]:
        """Replace a node's owners.

        Return the old and new owners in foreground deletion: their blockers may have changed.
        """
        affected: set[str] = set()
        if owners == node.owners:
            return affected
        for reference in node.owners:
            owner = self._nodes.get(reference.uid)
            if owner is not None and owner.dependents is not None:
                owner.dependents = removed(owner.dependents, node.uid)
                if owner.foreground:
                    affected.add(owner.uid)
                self._drop_if_unused(owner)
        node.owners = owners
        for reference in owners:
            # Created even if never observed: the owner may be listed after its dependents.
            owner = self._node(reference.uid)
            owner.dependents = added(owner.dependents, node.uid)
            if owner.foreground:
                affected.add(owner.uid)
        return affected

    def _node(self, uid: str) -> GraphNode:
        node = self._nodes.get(uid)
        if node is None:
            node = GraphNode(intern(uid))
            self._nodes[node.uid] = node
        return node

    def _drop_if_unused(self, node: GraphNode) -> None:
        if node.dependents is None and node.virtual:
            self._nodes.pop(node.uid, None)


def _interned(reference: EnvelopeOwner) -> EnvelopeOwner:
    """Share strings: thousands of references name the same few kinds and owners."""
    return EnvelopeOwner(
        api_version=intern(reference.api_version),
        kind=intern(reference.kind),
        name=intern(reference.name),
        uid=intern(reference.uid),
        controller=reference.controller,
        block_owner_deletion=reference.block_owner_deletion,
    )
