"""Index of the objects that the pods of each node refer to, updated from the store's events.

A bound pod's references hardly ever change, so most pod events (status updates) are recognised by two byte searches and
need no decoding. Counts are kept per (node, reference), because several pods may share a Secret.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple, TypedDict

import msgspec

from tarmac.api.compute.names import LABEL_DISK_NODE
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.server.reader import decode
from tarmac.store.interface import Entry, Event, Store

PODS = "core/pods"
VOLUMES = "core/persistentvolumes"


class GraphReference(NamedTuple):
    """A reference to an object in a pod's namespace."""

    resource: str  # secrets, configmaps, persistentvolumeclaims, serviceaccounts
    namespace: str
    name: str


class _Pod(NamedTuple):
    node: str
    created: int
    references: tuple[GraphReference, ...]


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    annotations: dict[str, str] | None = None


class _PodView(msgspec.Struct):
    """A pod without its largest parts: managed fields and status."""

    metadata: _Metadata
    spec: JsonObject = {}


class _SimpleSpec(TypedDict, total=False):
    """The spec of a pod that refers to no objects but its node and service account (see `_may_refer`)."""

    nodeName: str
    serviceAccountName: str


class _SimplePodView(msgspec.Struct):
    metadata: _Metadata
    spec: _SimpleSpec = {}


_read_pod = msgspec.json.Decoder(_PodView).decode
_read_simple_pod = msgspec.json.Decoder(_SimplePodView).decode
_REFERRING = (b'"volumes":', b'"env":', b'"envFrom":', b'"imagePullSecrets":')


def _may_refer(raw: bytes) -> bool:
    return any(name in raw for name in _REFERRING)


class _Volume(NamedTuple):
    claim: GraphReference | None
    secrets: tuple[GraphReference, ...]
    node: str  # the node of its disk; empty if the disk is not on a node


class NodeGraph:
    """The objects that each node may access."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pods: dict[str, _Pod] = {}
        self._counts: Counter[tuple[str, GraphReference]] = Counter()
        self._volumes: dict[str, _Volume] = {}
        self._unsubscribe: list[Any] = []

    def start(self) -> None:
        """Load all pods and volumes, and subscribe to changes."""
        # Runs without await, so no change is missed between listing and subscribing.
        for entry in self._store.list(PODS).entries:
            self._put_pod(entry)
        for entry in self._store.list(VOLUMES).entries:
            self._put_volume(entry)
        self._unsubscribe.append(self._store.subscribe(PODS, self._pods_changed))
        self._unsubscribe.append(self._store.subscribe(VOLUMES, self._volumes_changed))

    def stop(self) -> None:
        """Unsubscribe from changes."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()

    def runs_pod(self, node: str, namespace: str, name: str) -> bool:
        """Return True if the pod is bound to the node."""
        pod = self._pods.get(f"{namespace}/{name}")
        return pod is not None and pod.node == node

    def refers_to(self, node: str, resource: str, namespace: str, name: str) -> bool:
        """Return True if a pod on the node refers to the object, directly or through a volume."""
        reference = GraphReference(resource, namespace, name)
        if self._counts.get((node, reference)):
            return True
        if resource != "secrets":
            return False
        return any(reference in volume.secrets and self._uses(node, volume) for volume in self._volumes.values())

    def uses_volume(self, node: str, name: str) -> bool:
        """Return True if a pod on the node uses the PersistentVolume through its claim."""
        volume = self._volumes.get(name)
        return volume is not None and self._uses(node, volume)

    def has_disk(self, node: str, name: str) -> bool:
        """Return True if the PersistentVolume's disk is on the node."""
        volume = self._volumes.get(name)
        return volume is not None and volume.node == node

    def _uses(self, node: str, volume: _Volume) -> bool:
        return volume.claim is not None and bool(self._counts.get((node, volume.claim)))

    def _pods_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "DELETED":
                self._forget_pod(event.entry.name)
            else:
                self._put_pod(event.entry)

    def _put_pod(self, entry: Entry) -> None:
        known = self._pods.get(entry.name)
        if known is not None:
            # The node and most references of a bound pod are immutable; only ephemeral containers can add some.
            # A different creation revision means a recreated pod.
            if known.created == entry.created and b'"ephemeralContainers"' not in entry.raw:
                return
            self._forget_pod(entry.name)
        if b'"nodeName"' not in entry.raw:
            return
        pod = (_read_pod if _may_refer(entry.raw) else _read_simple_pod)(entry.raw)
        node = pod.spec.get("nodeName")
        if node:
            node, references = intern(node), _kept_once(tuple(dict.fromkeys(_references(pod))))
            self._pods[entry.name] = _Pod(node, entry.created, references)
            self._counts.update((node, reference) for reference in references)

    def _forget_pod(self, name: str) -> None:
        pod = self._pods.pop(name, None)
        if pod is None:
            return
        for reference in pod.references:
            key = (pod.node, reference)
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def _volumes_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == "DELETED":
                self._volumes.pop(event.entry.name, None)
            else:
                self._put_volume(event.entry)

    def _put_volume(self, entry: Entry) -> None:
        volume = decode(entry)
        spec = volume.get("spec") or {}
        claim = spec.get("claimRef") or {}
        named = claim.get("name") and claim.get("namespace")
        reference = GraphReference("persistentvolumeclaims", claim["namespace"], claim["name"]) if named else None
        secrets = tuple(_source_secrets(spec, claim.get("namespace", "")))
        node = (volume["metadata"].get("labels") or {}).get(LABEL_DISK_NODE, "")
        self._volumes[entry.name] = _Volume(reference, secrets, node)


@lru_cache(4096)
def _kept_once(references: tuple[GraphReference, ...]) -> tuple[GraphReference, ...]:
    """Share equal tuples: thousands of pods have the same references."""
    return references


def _references(pod: _PodView | _SimplePodView) -> Iterator[GraphReference]:
    """Yield the objects of its namespace that a pod needs. None for a mirror pod: the node itself wrote it."""
    # A node chooses the spec of its mirror pods: with references from them it could read any Secret.
    if is_mirror(pod.metadata.annotations):
        return
    for resource, name in _names(pod.metadata.name, pod.spec):
        if name:
            yield GraphReference(resource, pod.metadata.namespace, name)


def _names(pod: str, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "serviceaccounts", spec.get("serviceAccountName", "")
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name", "")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(kind) or ():
            yield from _environment(container)
    for volume in spec.get("volumes") or ():
        yield from _volume(pod, volume)


def _environment(container: JsonObject) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or ():
        yield "secrets", (source.get("secretRef") or {}).get("name", "")
        yield "configmaps", (source.get("configMapRef") or {}).get("name", "")
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield "secrets", (source.get("secretKeyRef") or {}).get("name", "")
        yield "configmaps", (source.get("configMapKeyRef") or {}).get("name", "")


def _volume(pod: str, volume: JsonObject) -> Iterator[tuple[str, str]]:
    yield "configmaps", (volume.get("configMap") or {}).get("name", "")
    yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if volume.get("ephemeral"):
        yield "persistentvolumeclaims", f"{pod}-{volume.get('name', '')}"
    for source in (volume.get("projected") or {}).get("sources") or ():
        yield "secrets", (source.get("secret") or {}).get("name", "")
        yield "configmaps", (source.get("configMap") or {}).get("name", "")
    for reference in _source_secrets(volume, ""):
        yield "secrets", reference.name


def _source_secrets(holder: JsonObject, namespace: str) -> Iterator[GraphReference]:
    """Yield the Secrets named by any kind of volume source: in `secretName`, or in a field ending in `SecretRef`."""
    sources: Iterable[Any] = (value for value in holder.values() if isinstance(value, dict))
    for source in sources:
        if source.get("secretName"):
            yield GraphReference("secrets", source.get("secretNamespace") or namespace, source["secretName"])
        for field, reference in source.items():
            if field.lower().endswith("secretref") and reference:
                yield GraphReference("secrets", reference.get("namespace") or namespace, reference.get("name", ""))
