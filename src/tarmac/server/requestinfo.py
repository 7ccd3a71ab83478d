"""Attributes of a request, as authorization, audit and metrics use them.

Parsed paths are cached: clients repeat the same paths, so the hot path is one dictionary lookup. The few query
parameters that change the meaning of a path (`watch`, a field selector on `metadata.name`) are parsed only when the
query can contain them.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.base.selectors import FieldSelector
from tarmac.http.messages import Request

_VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
# Opening one of these is a create for every method: WebSockets can only be opened by GET.
_CONNECTIONS = {"pods": frozenset({"exec", "attach", "portforward"}), "instances": frozenset({"console", "vnc"})}
_NODE_CONNECTIONS = frozenset({"exec", "attach", "portForward", "run", "tarmac"})  # behind nodes/NAME/proxy
_MAX_CACHED = 4096
_MAX_CACHED_PATH = 512  # characters: clients can send arbitrarily long paths


class RequestInfo(NamedTuple):
    """The attributes of one request. For paths outside the API only `verb` and `path` are set."""

    # get, list, watch, create, update, patch, delete, deletecollection; for other paths the method in lower case
    verb: str
    path: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""


_seen: dict[tuple[str, str], RequestInfo] = {}


def request_info(request: Request) -> RequestInfo:
    """Return the attributes of a request."""
    key = (request.method, request.path)
    info = _seen.get(key)
    if info is None:
        info = _parse(request.method, request.path)
        if len(_seen) >= _MAX_CACHED:
            _seen.clear()
        if len(request.path) <= _MAX_CACHED_PATH:
            _seen[key] = info
    query = request.query
    if query and info.is_resource and ("watch" in query or "fieldSelector" in query):
        return _refine(info, request)
    return info


def _parse(method: str, path: str) -> RequestInfo:
    other = RequestInfo(method.lower(), path)
    parts = path.removeprefix("/").removesuffix("/").split("/")
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return other
    verb = _VERBS.get(method, other.verb)
    if rest[0] == "watch" and len(rest) > 1 and method == "GET":
        verb, rest = "watch", rest[1:]
    namespace, resource, name, behind = _place(rest)
    is_proxy = behind[:1] == ["proxy"]  # the rest is a path of the proxied server
    # An empty segment, as of `//`, is no name: authorization and storage could read such a path differently.
    if "" in (rest[: len(rest) - len(behind)] if is_proxy else rest):
        return other
    if not name and verb in ("get", "delete"):
        verb = {"get": "list", "delete": "deletecollection"}[verb]
    subresource = "proxy" if is_proxy else "/".join(behind)
    first = next(filter(None, behind[1:]), "")  # a node collapses repeated slashes
    # Exec through the node's own API needs the right to create, not only to get, `nodes/proxy`.
    opens_on_node = resource == "nodes" and is_proxy and first in _NODE_CONNECTIONS
    if opens_on_node or (subresource in _CONNECTIONS.get(resource, ()) and method in ("GET", "POST")):
        verb = "create"
    return RequestInfo(verb, path, True, group, version, resource, subresource, namespace, name)


def _place(rest: list[str]) -> tuple[str, str, str, list[str]]:
    """Return namespace, resource and name in the path after the version, and the segments after the name."""
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, *rest = rest
    name, *behind = rest or [""]
    return namespace, resource, name, behind


def _refine(info: RequestInfo, request: Request) -> RequestInfo:
    """Turn a list into a watch, and narrow a collection to one name, by query parameters.

    Authorization uses the result.
    """
    if info.verb not in ("list", "watch", "deletecollection"):
        return info
    # Before authorization: a user with `list` alone must not start a watch.
    if info.verb == "list" and boolean(request, "watch"):
        info = info._replace(verb="watch")
    if not info.name:
        name = _selected_name(request.param("fieldSelector"))
        if name:
            info = info._replace(name=name)
    return info


def boolean(request: Request, name: str) -> bool | None:
    """Parse a query parameter as Kubernetes parses booleans: present and not `false` or `0` is true."""
    values = request.params().get(name)
    if not values:
        return None
    return values[0].lower() not in ("false", "0")


def _selected_name(selector: str) -> str:
    """Return the single name that a field selector allows, parsed as the list does; empty for a malformed selector."""
    try:
        return FieldSelector.parse(selector).exact("metadata.name") or ""
    except ValueError:
        return ""
