"""`scale`: the number of replicas of any kind that has one, as an `autoscaling/v1` Scale.

A Scale is computed from the object on request and never stored. Writing one is an update of the object that changes
only its replicas, so all rules of the kind apply. `kubectl get --subresource=scale` requests it as a Table.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tarmac.api.columns import AGE, NAME, column, computed
from tarmac.api.decode import decode_kind
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.selectors import LabelMatcher
from tarmac.http.messages import Request, Response
from tarmac.server.encoding import encode_json
from tarmac.server.patch.apply import server_side_apply
from tarmac.server.patch.engine import APPLY_PATCH, apply_patch, check_type
from tarmac.server.printing.answers import object_answer
from tarmac.server.printing.negotiation import shape_of
from tarmac.server.printing.table import TablePrinter
from tarmac.server.routes import Route
from tarmac.server.storage.options import write_options
from tarmac.server.storage.resourcestorage import ResourceStorage, WriteCall
from tarmac.server.storage.updating import check_name, check_version, rewrite, rules_of
from tarmac.store.interface import Entry

_COLUMNS = (
    NAME,
    computed(
        "Desired", lambda scale: scale["spec"].get("replicas", 0), None, "Number of desired replicas", type="integer"
    ),
    column("Available", ".status.replicas", "Number of actual replicas", type="integer"),
    AGE,
)
_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_route(storage: ResourceStorage) -> Route:
    """GET, PUT and PATCH of `scale`."""
    printer = TablePrinter(replace(storage.resource, columns=_COLUMNS, strategy=Strategy()))
    door = _Door(storage, printer)
    return {"get": partial(_get, door), "update": partial(_update, door), "patch": partial(_patch, door)}


class _Door(NamedTuple):
    """The scale endpoint of one resource."""

    storage: ResourceStorage
    printer: TablePrinter

    def answer(self, request: Request, entry: Entry, warnings: Sequence[str] = ()) -> Response:
        """Return the Scale of a stored object, in the representation the client asked for."""
        raw = encode_json(scale_of(self.storage, self.storage.load(entry)))
        now = self.storage.services.clock.now()
        return object_answer(raw, entry.revision, shape_of(request), self.printer, now, 200, warnings)


def scale_of(storage: ResourceStorage, obj: JsonObject) -> JsonObject:
    """Return the Scale of an object. Raises BadRequest for one without a single number of replicas."""
    spec_path, status_path, selector_path = _paths(storage, obj)
    metadata = {field: obj["metadata"][field] for field in _METADATA if field in obj["metadata"]}
    status: JsonObject = {"replicas": _read(obj, status_path) or 0}
    if selector_path and (selector := _selector_text(_read(obj, selector_path))):
        status["selector"] = selector
    spec: JsonObject = {}
    replicas = _read(obj, spec_path)
    if replicas:
        spec["replicas"] = replicas
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status}


def _selector_text(selector: Any) -> str:
    """Return the text of a selector: a text already, a LabelSelector, or the plain map of a ReplicationController."""
    if isinstance(selector, dict):
        # By its values: a ReplicationController may select a label named `matchLabels`.
        is_plain = any(isinstance(value, str) for value in selector.values())
        return str(LabelMatcher.from_object({"matchLabels": selector} if is_plain else selector))
    return selector if isinstance(selector, str) else ""


def _paths(storage: ResourceStorage, obj: JsonObject) -> tuple[str, str, str | None]:
    resource = storage.resource
    if resource.scaled_at is not None:
        return resource.scaled_at(obj), ".status.replicas", None
    assert resource.scale is not None, "only such resources get this route"
    return resource.scale


def _get(door: _Door, request: Request) -> Response | Awaitable[Response]:
    waiting = door.storage.store.fresh()
    return _get_now(door, request) if waiting is None else _get_fresh(waiting, door, request)


async def _get_fresh(waiting: Awaitable[None], door: _Door, request: Request) -> Response:
    await waiting
    return _get_now(door, request)


def _get_now(door: _Door, request: Request) -> Response:
    storage, info = door.storage, request.info
    entry = storage.store.get(storage.bucket, storage.key(info.namespace, info.name))
    if entry is None:
        raise storage.not_found(info.name)
    return door.answer(request, entry)


async def _update(door: _Door, request: Request) -> Response:
    call = WriteCall(door.storage, request, write_options("UpdateOptions", request))
    content_type = request.headers.get("content-type", "")
    validation = call.options.field_validation
    scale, warnings = decode_kind("autoscaling", "v1", "Scale", request.body, content_type, validation)
    entry = await _rescale(call, lambda _: scale)
    return door.answer(request, entry, [*warnings, *call.warnings])


async def _patch(door: _Door, request: Request) -> Response:
    storage = door.storage
    patch_type = check_type(storage.resource, request.headers.get("content-type", ""))
    applies = patch_type == APPLY_PATCH
    call = WriteCall(storage, request, write_options("PatchOptions", request, apply=applies))
    if applies:
        entry = await _apply(call)
    else:
        entry = await _rescale(call, partial(_patched, call, patch_type))
    return door.answer(request, entry, call.warnings)


def _patched(call: WriteCall, patch_type: str, old: JsonObject) -> JsonObject:
    storage, validation = call.storage, call.options.field_validation
    patched, _ = apply_patch(storage.resource, patch_type, scale_of(storage, old), call.request.body)
    scale, warnings = decode_kind("autoscaling", "v1", "Scale", encode_json(patched), field_validation=validation)
    call.warnings += warnings
    return scale


async def _apply(call: WriteCall) -> Entry:
    """Apply the replicas of a Scale to the object, with subresource `scale` in managedFields."""
    storage, options = call.storage, call.options
    body, validation = call.request.body, options.field_validation
    scale, warnings = decode_kind("autoscaling", "v1", "Scale", body, "application/yaml", validation)
    check_name(call, scale)
    if storage.resource.scale is None:
        raise BadRequest(f"the scale of {storage.resource.plural} cannot be applied: apply the object itself")
    applied: JsonObject = {
        "apiVersion": storage.resource.api_version,
        "kind": storage.resource.kind,
        "metadata": {"name": call.info.name},
    }
    _write(applied, storage.resource.scale[0], _checked(call, scale))

    def change(_: JsonObject, entry: Entry) -> JsonObject:
        call.warnings += warnings
        resource, now = storage.resource, storage.services.now()
        manager, force = options.field_manager, options.force
        return server_side_apply(
            resource, storage.load(entry), applied, manager, force=force, subresource="scale", now=now
        )

    return await rewrite(call, change, rules_of(storage)._replace(applied=True))


async def _rescale(call: WriteCall, make: Callable[[JsonObject], JsonObject]) -> Entry:
    storage = call.storage

    def change(old: JsonObject, entry: Entry) -> JsonObject:
        scale = make(old)
        check_name(call, scale)
        # As in kube-apiserver: a HorizontalPodAutoscaler sends the version that it read, `kubectl scale` none.
        if scale["metadata"].get("resourceVersion"):
            check_version(call, scale, old)
        # A copy of its own: `old` stays as stored, since the update compares with it.
        new = storage.load(entry)
        _write(new, _paths(storage, new)[0], _checked(call, scale))
        return new

    return await rewrite(call, change, rules_of(storage))


def _checked(call: WriteCall, scale: JsonObject) -> int:
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if replicas < 0:
        errors = FieldErrors()
        errors.invalid(".spec.replicas", replicas, "should be a non-negative integer")
        raise call.storage.invalid(call.info.name, errors)
    return replicas


def _read(obj: JsonObject, path: str) -> Any:
    value: Any = obj
    for step in path.strip(".").split("."):
        value = value[int(step)] if isinstance(value, list) else value.get(step) if isinstance(value, dict) else None
    return value


def _write(obj: JsonObject, path: str, value: int) -> None:
    *parents, last = path.strip(".").split(".")
    place: Any = obj
    for step in parents:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    place[last] = value
