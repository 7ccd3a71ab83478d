"""Translates client requests for logs and streams of a pod to paths and queries of the node's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, invalid
from tarmac.base.clock import parse_rfc3339
from tarmac.base.fielderrors import FieldErrors
from tarmac.http.messages import Request
from tarmac.server.requestinfo import boolean

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_FLAGS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
_NEGATIVE = "must be greater than or equal to 0"
_POSITIVE = "must be greater than 0"


def container_of(pod: JsonObject, wanted: str) -> str:
    """Return the name of the requested container, or of the only one. Raises BadRequest."""
    name = pod["metadata"]["name"]
    names = [each["name"] for field in _CONTAINERS for each in pod["spec"].get(field) or ()]
    if wanted:
        # Only names of the stored pod get into the path: a client could otherwise add segments, and reach other
        # endpoints.
        if wanted not in names:
            raise BadRequest(f"container {wanted} is not valid for pod {name}")
        return wanted
    ordinary = pod["spec"]["containers"]
    if len(ordinary) != 1:
        raise BadRequest(f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]")
    return ordinary[0]["name"]


def _command(verb: str, request: Request, pod: JsonObject) -> str:
    container = container_of(pod, request.param("container"))
    query = [(name, "1") for asked, name in _FLAGS.items() if boolean(request, asked)]
    query += (("command", word) for word in request.params().get("command", []))
    return f"/{verb}/{_place(pod)}/{container}?{urlencode(query)}"


def _port_forward(request: Request, pod: JsonObject) -> str:
    ports = ",".join(request.params().get("ports", []))
    return f"/portForward/{_place(pod)}" + (f"?{urlencode({'port': ports})}" if ports else "")


def _place(pod: JsonObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


TARGETS: Mapping[str, Callable[[Request, JsonObject], str]] = {
    "exec": lambda request, pod: _command("exec", request, pod),
    "attach": lambda request, pod: _command("attach", request, pod),
    "portforward": _port_forward,
}


def log_query(request: Request) -> str:
    """Return the node's query for a log. Raises Invalid and BadRequest."""
    errors = FieldErrors()
    numbers = {name: _number(request, name) for name in ("tailLines", "limitBytes", "sinceSeconds")}
    since = request.param("sinceTime")
    tail, limit, seconds = numbers.values()
    if tail is not None and tail < 0:
        errors.invalid("tailLines", tail, _NEGATIVE)
    if limit is not None and limit < 1:
        errors.invalid("limitBytes", limit, _POSITIVE)
    if seconds is not None and since:
        errors.forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")
    elif seconds is not None and seconds < 1:
        errors.invalid("sinceSeconds", seconds, _POSITIVE)
    # kube-apiserver, too, rejects it unless its feature gate PodLogsQuerySplitStreams is on.
    if "stream" in request.params():
        errors.forbidden("stream", "may not be specified")
    if errors:
        raise invalid("", "PodLogOptions", request.info.name, errors)
    query = [(name, "true") for name in ("follow", "previous", "timestamps") if boolean(request, name)]
    query += ((name, str(number)) for name, number in numbers.items() if number is not None)
    return urlencode([*query, ("sinceTime", _time(since))] if since else query)


def _number(request: Request, name: str) -> int | None:
    text = request.param(name)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _time(text: str) -> str:
    try:
        parse_rfc3339(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error
    return text
