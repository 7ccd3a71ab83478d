"""Paths and operations of a resource, from its entry in the catalogue.

Clients use them for more than documentation: kubectl decides by the `fieldValidation` and `dryRun` parameters of an
operation if it may leave validation and dry runs to the server.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tarmac.api.openapi.naming import answer_name, document_path, operation_group, reference, tag
from tarmac.api.resource import Resource, Subresource

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_MEDIA = ("application/json", "application/yaml")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")

_QUERY = {
    "allowWatchBookmarks": ("boolean", "Ask for bookmark events in a watch."),
    "continue": ("string", "Where to go on with a list that was returned in parts."),
    "dryRun": ("string", "With the value All, do everything but store the result."),
    "fieldManager": ("string", "The author of the change; recorded in metadata.managedFields."),
    "fieldSelector": ("string", "Return only objects whose fields match."),
    "fieldValidation": ("string", "Handling of unknown and repeated fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Take over fields that other managers own. Only for apply."),
    "gracePeriodSeconds": ("integer", "Seconds before the object is deleted."),
    "labelSelector": ("string", "Return only objects whose labels match."),
    "limit": ("integer", "Return a list in parts of at most this many objects."),
    "pretty": ("string", "With the value true, indent the answer."),
    "propagationPolicy": ("string", "Handling of dependents: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "Which version of the data to answer from."),
    "resourceVersionMatch": ("string", "How resourceVersion limits a list."),
    "sendInitialEvents": ("boolean", "Start a watch with the objects that exist."),
    "timeoutSeconds": ("integer", "How long a list or watch may take."),
    "watch": ("boolean", "Return changes as they happen instead of a list."),
}  # fmt: skip
_LIST = ("allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
         "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch")  # fmt: skip
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "propagationPolicy")
_SELECT = ("continue", "fieldSelector", "labelSelector", "limit", "resourceVersion", "resourceVersionMatch")


class _Action(NamedTuple):
    method: str
    action: str  # x-kubernetes-action
    start: str  # of the operation id
    parameters: tuple[str, ...]
    text: str


# by verb, on one object and on the collection
_ONE = {
    "get": _Action("get", "get", "read", (), "read the specified"),
    "update": _Action("put", "put", "replace", _WRITE, "replace the specified"),
    "patch": _Action("patch", "patch", "patch", (*_WRITE, "force"), "partially update the specified"),
    "delete": _Action("delete", "delete", "delete", _DELETE, "delete a"),
}
_BELOW = {**_ONE, "create": _Action("post", "post", "create", (), "ask about a")}
_MANY = {
    "list": _Action("get", "list", "list", _LIST, "list or watch objects of kind"),
    "create": _Action("post", "post", "create", _WRITE, "create a"),
    "deletecollection": _Action(
        "delete",
        "deletecollection",
        "deleteCollection",
        (*_DELETE, *_SELECT),
        "delete collection of",
    ),
}


def paths_of(resource: Resource, type_name: str) -> dict[str, Any]:
    """Return every path of one resource. `type_name` is the published name of its type."""
    root = f"/{document_path(resource.group, resource.version)}"
    home = f"{root}/namespaces/{{namespace}}/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"
    place = ["namespace"] if resource.namespaced else []
    paths = {
        home: _item(resource, type_name, _MANY, resource.verbs, place),
        f"{home}/{{name}}": _item(resource, type_name, _ONE, resource.verbs, ["name", *place]),
    }
    if resource.namespaced and "list" in resource.verbs:
        everywhere = _item(resource, type_name, {"list": _MANY["list"]}, resource.verbs, [], everywhere=True)
        paths[f"{root}/{resource.plural}"] = everywhere
    for subresource in resource.subresources:
        paths[f"{home}/{{name}}/{subresource.name}"] = _subresource(resource, subresource, type_name, ["name", *place])
    return {path: item for path, item in paths.items() if item.keys() - {"parameters"}}


def _item(
    resource: Resource,
    type_name: str,
    actions: dict[str, _Action],
    verbs: tuple[str, ...],
    places: list[str],
    everywhere: bool = False,
    suffix: str = "",
) -> dict[str, Any]:
    item: dict[str, Any] = {"parameters": [_place(name, resource) for name in places] + [_parameter("pretty")]}
    scope = "Namespaced" if resource.namespaced and not everywhere else ""
    for verb, (method, action, start, parameters, text) in actions.items():
        if verb not in verbs:
            continue
        where = f"{operation_group(resource.group, resource.version)}{scope}{resource.kind}{suffix}"
        operation: dict[str, Any] = {
            "description": f"{text} {resource.kind}",
            "operationId": start + where + ("ForAllNamespaces" if everywhere else ""),
            "parameters": [_parameter(name) for name in parameters],
            "responses": _responses(verb, type_name),
            "tags": [tag(resource.group, resource.version)],
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource.group, resource.version, resource.kind),
        }
        body = _body(verb, type_name)
        item[method] = {**operation, "requestBody": body} if body else operation
    return item


def _subresource(resource: Resource, sub: Subresource, type_name: str, places: list[str]) -> dict[str, Any]:
    foreign = sub.group is not None and sub.version is not None
    name = answer_name(sub) if foreign else type_name
    item = _item(resource, name, _BELOW, sub.verbs, places, suffix=sub.name.capitalize())
    if "post" in item:
        item["post"]["requestBody"] = _body("create", type_name)
    if foreign:
        for method, operation in item.items():
            if method != "parameters":
                operation["x-kubernetes-group-version-kind"] = _gvk(sub.group or "", sub.version or "", sub.kind)
    return item


def _gvk(group: str, version: str, kind: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "version": version}


def _place(name: str, resource: Resource) -> dict[str, Any]:
    text = f"name of the {resource.kind}" if name == "name" else "namespace of the object"
    return {"description": text, "in": "path", "name": name, "required": True, "schema": _unique("string")}


def _parameter(name: str) -> dict[str, Any]:
    kind, text = _QUERY[name]
    return {"description": text, "in": "query", "name": name, "schema": _unique(kind)}


def _unique(type: str) -> dict[str, Any]:
    return {"type": type, "uniqueItems": True}


def _body(verb: str, type_name: str) -> dict[str, Any] | None:
    if verb in ("create", "update"):
        return {"content": {"*/*": {"schema": reference(type_name)}}, "required": True}
    if verb == "patch":
        return {"content": {media: {"schema": reference(f"{_META}Patch")} for media in _PATCHES}, "required": True}
    if verb in ("delete", "deletecollection"):
        return {"content": {"*/*": {"schema": reference(f"{_META}DeleteOptions")}}}
    return None


def _responses(verb: str, type_name: str) -> dict[str, Any]:
    """Return the responses of success, and 401, which clients expect; other failures are a Status and not listed."""
    name = {"list": f"{type_name}List", "delete": f"{_META}Status", "deletecollection": f"{_META}Status"}
    media = (*_MEDIA, "application/json;stream=watch") if verb == "list" else _MEDIA
    content = {kind: {"schema": reference(name.get(verb, type_name))} for kind in media}
    codes = {"create": {"200": "OK", "201": "Created", "202": "Accepted"}, "update": {"200": "OK", "201": "Created"},
             "patch": {"200": "OK", "201": "Created"}, "delete": {"200": "OK", "202": "Accepted"}}  # fmt: skip
    answers = {code: {"content": content, "description": text} for code, text in codes.get(verb, {"200": "OK"}).items()}
    return {**answers, "401": {"description": "Unauthorized"}}
