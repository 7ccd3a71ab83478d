"""Binding: assigns a pod to a node.

Schedulers do this thousands of times a second, so it decodes as little as possible. Only the pod's node, conditions and
annotations are decoded and replaced; all other fields stay encoded and are not validated again, because they do not
change. As in Kubernetes, these fields get no manager.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from tarmac.api.conditions import replaced
from tarmac.api.decode import decode_kind
from tarmac.api.decode.limits import MAX_LABELS
from tarmac.api.kubernetes.core.pods.classfields import validate_annotations_unchanged
from tarmac.api.mirrorpods import MIRROR, is_mirror
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, BadRequest, conflict, misplaced
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request, Response
from tarmac.server.printing.answers import document
from tarmac.server.routes import Route
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import precondition_failed
from tarmac.store.interface import Missing, RevisionConflict

SUCCESS: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
_MAX_ATTEMPTS = 5

Part = dict[str, Any]
"""A part of a stored pod: its fields are undecoded, newly set ones may be any value."""


class _Pod(msgspec.Struct):
    """A stored pod with undecoded fields."""

    metadata: dict[str, msgspec.Raw]
    spec: dict[str, msgspec.Raw]
    status: dict[str, msgspec.Raw] = {}


_take_apart = msgspec.json.Decoder(_Pod).decode
_decode = msgspec.json.Decoder().decode


def _value(part: Part, field: str) -> Any:
    return _decode(part[field]) if field in part else None


def binding_route(storage: ResourceStorage) -> Route:
    """POST of `pods/NAME/binding`."""
    return {"create": partial(_bind_named, storage)}


def bindings_route(pods: ResourceStorage) -> Route:
    """POST of `bindings`: the same, with the name in the body."""
    return {"create": partial(_bind, pods)}


async def _bind_named(storage: ResourceStorage, request: Request) -> Response:
    call = WriteCall(storage, request, write_options("CreateOptions", request))
    binding = _read(call)
    if binding["metadata"].get("name") != call.info.name:
        raise BadRequest("name in URL does not match name in Binding object")
    return await _assign(call, binding)


async def _bind(storage: ResourceStorage, request: Request) -> Response:
    call = WriteCall(storage, request, write_options("CreateOptions", request))
    return await _assign(call, _read(call))


def _read(call: WriteCall) -> JsonObject:
    request = call.request
    content_type = request.headers.get("content-type", "")
    binding, warnings = decode_kind("", "v1", "Binding", request.body, content_type, call.options.field_validation)
    call.warnings += warnings
    metadata = binding.setdefault("metadata", {})
    if metadata.setdefault("namespace", call.info.namespace) != call.info.namespace:
        raise misplaced()
    return binding


def _check_target(binding: JsonObject) -> str:
    errors = FieldErrors()
    target = binding.get("target") or {}
    if target.get("kind") not in (None, "", "Node"):
        errors.not_supported("target.kind", target["kind"], ["Node", "<empty>"])
    if not target.get("name"):
        errors.required("target.name")
    if errors:
        texts = [str(error) for error in errors]
        raise ApiError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", reason="")
    return target["name"]


async def _assign(call: WriteCall, binding: JsonObject) -> Response:
    storage, metadata = call.storage, binding["metadata"]
    name = metadata.get("name", "")
    node = _check_target(binding)
    # Once, not in each attempt: admission adds labels to the binding, which all attempts use.
    call.admit("binding", name, binding)
    key = storage.key(call.info.namespace, name)
    for _ in range(_MAX_ATTEMPTS):
        entry = storage.head(key)
        if entry is None:
            raise storage.not_found(name)
        pod = _take_apart(entry.raw)
        # On the version that the write below compares: two schedulers that bind at once must not both succeed.
        _check_pod(call, pod, metadata)
        spec, status = _with_node(pod, node, storage.services.now())
        marked = _with_marks(call, pod.metadata, metadata)
        # Encoded in each attempt: the fields that stay come undecoded from the version that is replaced.
        value = storage.encode({"metadata": marked, "spec": spec, "status": status})
        try:
            if not call.options.dry_run:
                # A cancellation here leaves the pod bound: the scheduler's retry gets the conflict "already assigned".
                await storage.store.update(storage.bucket, entry.name, value, entry.revision)
        except (RevisionConflict, Missing):  # gone: another server of the store has deleted it
            continue
        return document(call.request, SUCCESS, 201, call.warnings)
    raise storage.conflict(name)


def _check_pod(call: WriteCall, pod: _Pod, wanted: JsonObject) -> None:
    metadata, spec, name = pod.metadata, pod.spec, wanted["name"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        if wanted.get(field) and wanted[field] != _value(metadata, field):
            key = call.storage.key(call.info.namespace, name)
            raise precondition_failed(call.storage, name, key, label, wanted[field], _value(metadata, field))
    why = None
    if "deletionTimestamp" in metadata:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node := _value(spec, "nodeName"):
        why = f'pod {name} is already assigned to node "{node}"'
    elif _value(spec, "schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why is not None:
        raise conflict("", "pods/binding", name, why)


def _with_node(pod: _Pod, node: str, now: str) -> tuple[Part, Part]:
    """Return spec and status of the pod bound to the node."""
    scheduled: JsonObject = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    status: Part = {name: value for name, value in pod.status.items() if name != "nominatedNodeName"}
    status["conditions"] = replaced(_value(pod.status, "conditions"), scheduled)
    return {**pod.spec, "nodeName": node}, status


def _with_marks(call: WriteCall, metadata: Part, wanted: JsonObject) -> Part:
    """Return the pod's metadata with the annotations and labels of the binding.

    Rejects annotations that make the pod a mirror pod or change its classes. Raises BadRequest, Invalid.
    """
    if is_mirror(wanted.get("annotations")):
        raise BadRequest(f"metadata.annotations[{MIRROR}]: may not add mirror pod annotation")
    marked = dict(metadata)
    for field in ("annotations", "labels"):
        if wanted.get(field):
            marked[field] = {**(_value(metadata, field) or {}), **wanted[field]}
    if len(marked.get("labels") or ()) > MAX_LABELS:
        # Such a Pod could not be patched any more, so no controller could remove its finalizers.
        marked["labels"] = _value(metadata, "labels")
    if wanted.get("annotations"):
        _check_class_annotations(call, {"metadata": marked}, {"annotations": _value(metadata, "annotations")})
    return marked


def _check_class_annotations(call: WriteCall, pod: JsonObject, before: JsonObject) -> None:
    with FieldErrors() as errors:
        validate_annotations_unchanged(pod, {"metadata": before}, errors)
    if errors:
        raise call.storage.invalid(call.info.name, errors)
