"""A model of an API server: the semantics a client depends on, in memory, with faults on demand.

`LocalTransport` gets it in place of the real server. Objects live under their URL path; every write takes the next
version and is appended to a history that watches replay from. Faults are methods a test calls: cut every stream, cut
one in the middle of an event, send garbage, repeat events, forget history, refuse requests, restore an older state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from tarmac.api import status
from tarmac.base.clock import Clock, ManualClock, rfc3339
from tarmac.base.randomness import Randomness
from tarmac.base.selectors import LabelMatcher
from tarmac.client.local import LocalSink, LocalTransport

Json = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """One served resource."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"


KINDS = (
    Kind("v1", "namespaces", "Namespace", namespaced=False),
    Kind("v1", "nodes", "Node", namespaced=False),
    Kind("v1", "configmaps", "ConfigMap"),
    Kind("v1", "secrets", "Secret"),
    Kind("v1", "pods", "Pod"),
    Kind("v1", "serviceaccounts", "ServiceAccount"),
    Kind("v1", "events", "Event"),
    Kind("v1", "services", "Service"),
    Kind("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    Kind("v1", "persistentvolumes", "PersistentVolume", namespaced=False),
    Kind("compute.datumapis.com/v1alpha", "instances", "Instance"),
    Kind("networking.datumapis.com/v1alpha", "podendpoints", "PodEndpoint"),
    Kind("submariner.io/v1alpha1", "externalservices", "ExternalService"),
    Kind("submariner.io/v1alpha1", "forwarders", "Forwarder"),
    Kind("submariner.io/v1alpha1", "gateways", "Gateway"),
    Kind("coordination.k8s.io/v1", "leases", "Lease"),
    Kind("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
    Kind("certificates.k8s.io/v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False),
    Kind("authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False),
)


SUBRESOURCES = ("status", "finalize", "approval")


@dataclass(frozen=True)
class Answer:
    """A complete answer, shaped as the in-process transport expects it."""

    status: int
    body: bytes
    headers: list[tuple[str, str]] | None = None


@dataclass(frozen=True)
class StreamAnswer:
    """A streamed answer."""

    start: Callable[[LocalSink], Callable[[], None]]
    status: int = 200
    headers: list[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Place:
    """The object or collection of a path."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


@dataclass(eq=False)
class Watcher:
    """One open stream."""

    place: Place
    selector: Callable[[Json], bool]
    sink: LocalSink


@dataclass
class Written:
    """One entry of the history."""

    version: int
    type: str
    place: Place
    obj: Json
    before: Json | None = None


@dataclass
class ModelServer:
    """The server. The transport calls `handle`."""

    clock: Clock = field(default_factory=ManualClock)
    randomness: Randomness = field(default_factory=lambda: Randomness(1))
    streaming_lists: bool = True
    version: int = 100
    compacted: int = 0
    allow_access: Callable[[Json], bool] = lambda _spec: False

    def __post_init__(self) -> None:
        self.objects: dict[Place, Json] = {}
        self.history: list[Written] = []
        self.watchers: list[Watcher] = []
        self.requests: list[tuple[str, str]] = []
        self.refusals: list[status.ApiError] = []
        self.hooks: list[Callable[[str, str], None]] = []

    def transport(self) -> LocalTransport:
        return LocalTransport(self.handle)

    # --- requests -------------------------------------------------------------------------------------------------

    def handle(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        self.requests.append((method, path))
        try:
            for hook in self.hooks:
                hook(method, path)
            if self.refusals:
                raise self.refusals.pop(0)
            params = {name: values[-1] for name, values in parse_qs(query).items()}
            return self._answer(method, path, params, json.loads(body) if body else {}, headers)
        except status.ApiError as error:
            return Answer(error.http_code, error.encoded(), error.headers)

    def _answer(self, method: str, path: str, params: Json, body: Json, headers: Mapping[str, str]) -> Any:
        if method == "GET" and (document := self._discovery(path)) is not None:
            return Answer(200, json.dumps(document).encode())
        place = self._place(path)
        if method == "GET" and params.get("watch") == "true":
            return self._watch(place, params)
        if method == "GET" and place.name:
            result = self._get(place)
        elif method == "GET":
            result = self._list(place, params)
        elif method == "POST":
            result = self._create(place, body)
        elif method == "PUT":
            result = self._update(place, body)
        elif method == "PATCH":
            result = self._patch(place, body, headers.get("content-type", ""))
        elif place.name:
            result = self._delete(place, body)
        else:
            for found in [each for each in self.objects if _within(each, place)]:
                self._delete(found, body)
            result = {}
        return Answer(200, json.dumps(result).encode())

    def _place(self, path: str) -> Place:
        for kind in KINDS:
            if not path.startswith(kind.root + "/"):
                continue
            parts = path[len(kind.root) + 1 :].split("/")
            namespace = ""
            if kind.namespaced and parts[0] == "namespaces" and len(parts) > 2:
                namespace, parts = parts[1], parts[2:]
            if parts[0] == kind.plural and (len(parts) < 3 or parts[2] in SUBRESOURCES):
                return Place(kind, namespace, *parts[1:])
        raise status.NotFound("the server could not find the requested resource")

    def _discovery(self, path: str) -> Json | None:
        groups = sorted({kind.api_version for kind in KINDS if "/" in kind.api_version})
        if path == "/api":
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == "/apis":
            versions = [{"groupVersion": each, "version": each.split("/")[1]} for each in groups]
            return {
                "kind": "APIGroupList",
                "groups": [
                    {"name": each["groupVersion"].split("/")[0], "versions": [each], "preferredVersion": each}
                    for each in versions
                ],
            }
        found = [kind for kind in KINDS if kind.root == path]
        verbs = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        resources = [
            {
                "name": kind.plural,
                "kind": kind.kind,
                "namespaced": kind.namespaced,
                "verbs": ["create"] if kind.plural == "subjectaccessreviews" else verbs,
            }
            for kind in found
        ]
        return {"kind": "APIResourceList", "resources": resources} if found else None

    def _get(self, place: Place) -> Json:
        obj = self.objects.get(Place(place.kind, place.namespace, place.name))
        if obj is None:
            group = place.kind.api_version.rpartition("/")[0]
            raise status.not_found(group, place.kind.plural, place.name)
        return obj

    def _list(self, place: Place, params: Json) -> Json:
        matches = _selector(params)
        found = sorted(
            ((f"{each.namespace}/{each.name}", obj) for each, obj in self.objects.items() if _within(each, place)),
            key=lambda pair: pair[0],
        )
        version = self.version
        after = ""
        if token := params.get("continue"):
            listed, _, after = token.partition("|")
            if int(listed) <= self.compacted:
                raise status.Gone("the provided continue parameter is too old")
            version = int(listed)
        rest = [(key, obj) for key, obj in found if key > after and matches(obj)]
        limit = int(params.get("limit", 0)) or len(rest)
        metadata: Json = {"resourceVersion": str(version)}
        if len(rest) > limit:
            metadata["continue"] = f"{version}|{rest[limit - 1][0]}"
        items = [
            {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
            for _, obj in rest[:limit]
        ]
        return {"kind": f"{place.kind.kind}List", "metadata": metadata, "items": items}

    # --- writes ---------------------------------------------------------------------------------------------------

    def _create(self, place: Place, obj: Json) -> Json:
        if place.kind.plural == "subjectaccessreviews":
            return obj | {"status": {"allowed": self.allow_access(obj["spec"])}}
        metadata = obj["metadata"]
        at = Place(place.kind, place.namespace, metadata["name"])
        if at in self.objects:
            group = place.kind.api_version.rpartition("/")[0]
            raise status.already_exists(group, place.kind.plural, at.name)
        if place.namespace:
            metadata["namespace"] = place.namespace
        metadata.setdefault("uid", self.randomness.uuid())
        metadata["creationTimestamp"] = rfc3339(self.clock.now())
        obj = {"apiVersion": place.kind.api_version, "kind": place.kind.kind, **obj}
        return self._write("ADDED", at, obj)

    def _update(self, place: Place, obj: Json) -> Json:
        old = self._get(place)
        sent = obj["metadata"].get("resourceVersion")
        if sent and sent != old["metadata"]["resourceVersion"]:
            group = place.kind.api_version.rpartition("/")[0]
            raise status.conflict(group, place.kind.plural, place.name, "the object has been modified")
        for name in ("uid", "creationTimestamp", "deletionTimestamp"):
            if name in old["metadata"]:
                obj["metadata"][name] = old["metadata"][name]
        at = Place(place.kind, place.namespace, place.name)
        comparable = {**obj, "metadata": {**obj["metadata"], "resourceVersion": old["metadata"]["resourceVersion"]}}
        if comparable == old:
            return old
        spec_done = place.kind.plural != "namespaces" or not obj.get("spec", {}).get("finalizers")
        if obj["metadata"].get("deletionTimestamp") and not obj["metadata"].get("finalizers") and spec_done:
            return self._remove(at, obj)
        return self._write("MODIFIED", at, obj)

    def _patch(self, place: Place, patch: Json, content_type: str) -> Json:
        at = Place(place.kind, place.namespace, place.name)
        if "apply" in content_type and at not in self.objects:
            return self._create(place, patch)
        old = self._get(place)
        sent = (patch.get("metadata") or {}).get("uid")
        if sent and sent != old["metadata"]["uid"]:
            raise status.conflict("", place.kind.plural, place.name, "Precondition failed: UID in precondition")
        return self._update(place, _merge(old, patch))

    def _delete(self, place: Place, options: Json) -> Json:
        obj = json.loads(json.dumps(self._get(place)))
        metadata = obj["metadata"]
        for name, expected in (options.get("preconditions") or {}).items():
            if metadata[name] != expected:
                raise status.conflict("", place.kind.plural, place.name, f"Precondition failed: {name}")
        finalizers = set(metadata.get("finalizers") or ())
        policy = options.get("propagationPolicy")
        if policy == "Foreground":
            finalizers = (finalizers - {"orphan"}) | {"foregroundDeletion"}
        elif policy == "Orphan":
            finalizers = (finalizers - {"foregroundDeletion"}) | {"orphan"}
        if not finalizers and not (place.kind.plural == "namespaces" and obj.get("spec", {}).get("finalizers")):
            return self._remove(place, obj)
        metadata["finalizers"] = sorted(finalizers)
        if not finalizers:
            del metadata["finalizers"]
        metadata.setdefault("deletionTimestamp", rfc3339(self.clock.now()))
        return self._write("MODIFIED", place, obj)

    def _remove(self, place: Place, obj: Json) -> Json:
        before = self.objects.pop(place)
        self._record("DELETED", place, obj, before)
        return obj

    def _write(self, type: str, place: Place, obj: Json) -> Json:
        before = self.objects.get(place)
        self.objects[place] = self._record(type, place, obj, before)
        return self.objects[place]

    def _record(self, type: str, place: Place, obj: Json, before: Json | None) -> Json:
        self.version += 1
        obj = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        written = Written(self.version, type, place, obj, before)
        self.history.append(written)
        for watcher in list(self.watchers):
            if _within(place, watcher.place):
                self._deliver(watcher, written)
        return obj

    # --- watches --------------------------------------------------------------------------------------------------

    def _watch(self, place: Place, params: Json) -> Any:
        if params.get("fieldSelector", "").startswith("metadata.name="):
            place = Place(place.kind, place.namespace, params["fieldSelector"].partition("=")[2])
        streaming = params.get("sendInitialEvents") == "true"
        if streaming and not self.streaming_lists:
            raise status.Invalid("sendInitialEvents is forbidden for watch")
        since = int(params.get("resourceVersion") or 0)
        if not streaming and since < self.compacted:
            raise status.Gone(f"too old resource version: {since} ({self.compacted})")
        selector = _selector(params)

        def start(sink: LocalSink) -> Callable[[], None]:
            watcher = Watcher(place, selector, sink)
            if streaming:
                for at, obj in list(self.objects.items()):
                    if _within(at, place) and selector(obj):
                        sink.write(_line("ADDED", obj))
                self.bookmark(watcher, initial=True)
            else:
                for written in self.history:
                    if written.version > since and _within(written.place, place):
                        self._deliver(watcher, written)
            self.watchers.append(watcher)
            return lambda: self.watchers.remove(watcher) if watcher in self.watchers else None

        return StreamAnswer(start)

    def _deliver(self, watcher: Watcher, written: Written) -> None:
        matches = written.type != "DELETED" and watcher.selector(written.obj)
        matched = written.before is not None and watcher.selector(written.before)
        if matches:
            watcher.sink.write(_line("MODIFIED" if matched else "ADDED", written.obj))
        elif matched:
            watcher.sink.write(_line("DELETED", written.obj))

    def bookmark(self, watcher: Watcher, *, initial: bool = False, version: int | None = None) -> None:
        metadata: Json = {"resourceVersion": str(version or self.version)}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        watcher.sink.write(_line("BOOKMARK", {"kind": watcher.place.kind.kind, "metadata": metadata}))

    # --- faults ---------------------------------------------------------------------------------------------------

    def bookmark_all(self) -> None:
        for watcher in self.watchers:
            self.bookmark(watcher)

    def cut(self, last_words: bytes = b"") -> None:
        """End every stream, perhaps in the middle of a line."""
        for watcher in list(self.watchers):
            if last_words:
                watcher.sink.write(last_words)
            watcher.sink.close()
        self.watchers.clear()

    def repeat(self, count: int) -> None:
        """Deliver the last events once more."""
        for written in self.history[-count:]:
            for watcher in self.watchers:
                if _within(written.place, watcher.place):
                    self._deliver(watcher, written)

    def compact(self) -> None:
        """Forget all history."""
        self.compacted = self.version
        self.history.clear()

    def refuse(self, error: status.ApiError, times: int = 1) -> None:
        """Answer the next requests with an error."""
        self.refusals += [error] * times

    # --- shorthands for tests -------------------------------------------------------------------------------------

    def put(self, plural: str, name: str, namespace: str = "default", **rest: Any) -> Json:
        """Create or replace an object directly."""
        kind = next(each for each in KINDS if each.plural == plural)
        place = Place(kind, namespace if kind.namespaced else "", name)
        metadata = {"name": name, **rest.pop("metadata", {})}
        if place in self.objects:
            return self._update(
                place, {**self.objects[place], **rest, "metadata": {**self.objects[place]["metadata"], **metadata}}
            )
        return self._create(Place(kind, place.namespace), {"metadata": metadata, **rest})

    def find(self, plural: str, name: str, namespace: str = "default") -> Json | None:
        kind = next(each for each in KINDS if each.plural == plural)
        return self.objects.get(Place(kind, namespace if kind.namespaced else "", name))

    def remove(self, plural: str, name: str, namespace: str = "default", **options: Any) -> None:
        kind = next(each for each in KINDS if each.plural == plural)
        self._delete(Place(kind, namespace if kind.namespaced else "", name), options)


def _within(place: Place, scope: Place) -> bool:
    return (
        place.kind == scope.kind
        and (not scope.namespace or place.namespace == scope.namespace)
        and (not scope.name or place.name == scope.name)
    )


def _selector(params: Json) -> Callable[[Json], bool]:
    selector = LabelMatcher.parse(params.get("labelSelector", ""))
    return lambda obj: selector.matches(obj["metadata"].get("labels") or {})


def _line(type: str, obj: Json) -> bytes:
    return json.dumps({"type": type, "object": obj}).encode() + b"\n"


def _merge(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
