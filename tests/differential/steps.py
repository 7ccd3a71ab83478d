"""The requests of a case, written once and sent to both servers.

A path, header or body may contain `$ns` (the namespace of the case) and names that an earlier step kept:
`get(f"{MAPS}/a").keep(rv="metadata.resourceVersion")` sets `$rv`. Each server has its own values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

Json = Any
JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Step:
    """One request. `events` makes it a watch: so many are read, including those of the steps `during` it."""

    method: str
    path: str
    body: Json = None  # bytes are sent unchanged, other values as JSON
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kept: Mapping[str, str] = field(default_factory=dict[str, str])
    view: Callable[[Json], Json] | None = None
    events: int = 0
    during: tuple[Step, ...] = ()
    as_admin: bool = True
    shown: tuple[str, ...] = ()

    def keep(self, **paths: str) -> Step:
        """Keep values of the response under names: `keep(rv="metadata.resourceVersion")`."""
        return replace(self, kept={**self.kept, **paths})

    def sending(self, content_type: str) -> Step:
        """Set the content type of the body."""
        return self.having({"Content-Type": content_type})

    def accepting(self, accept: str) -> Step:
        """Set the accepted content type."""
        return self.having({"Accept": accept})

    def having(self, headers: Mapping[str, str]) -> Step:
        """Add headers."""
        return replace(self, headers={**self.headers, **headers})

    def viewing(self, view: Callable[[Json], Json]) -> Step:
        """Compare only the result of `view` on the response's body."""
        return replace(self, view=view)

    def showing(self, *headers: str) -> Step:
        """Compare these headers of the response, too (lower-case names)."""
        return replace(self, shown=headers)

    def anonymous(self) -> Step:
        """Send it without the administrator's credentials."""
        return replace(self, as_admin=False)


def get(path: str) -> Step:
    """GET."""
    return Step("GET", path)


def create(path: str, body: Json) -> Step:
    """POST."""
    return Step("POST", path, body)


def put(path: str, body: Json) -> Step:
    """PUT."""
    return Step("PUT", path, body)


def delete(path: str, body: Json = None) -> Step:
    """DELETE, with DeleteOptions when there is a body."""
    return Step("DELETE", path, body)


def patch(kind: str, path: str, body: Json) -> Step:
    """PATCH of one of the four kinds."""
    return Step("PATCH", path, body).sending(kind)


def apply(path: str, body: Json, manager: str = "tester", force: bool = False) -> Step:
    """Server-side apply."""
    query = f"fieldManager={manager}" + ("&force=true" if force else "")
    return patch(APPLY_PATCH, path + ("&" if "?" in path else "?") + query, body)


def watch(path: str, *during: Step, events: int) -> Step:
    """Open a watch, play `during`, then read `events` events, or fewer when the stream ends."""
    return Step("GET", path + ("&" if "?" in path else "?") + "watch=1", events=events, during=during)


@dataclass(frozen=True)
class Case:
    """Steps that test one aspect of one feature of the API."""

    feature: str
    title: str
    steps: tuple[Step, ...]

    @property
    def id(self) -> str:
        """The test id for pytest."""
        return f"{self.feature}: {self.title}"


def feature(name: str, **cases: tuple[Step, ...] | Step) -> list[Case]:
    """The cases of one feature; a keyword `reads_like_a_title` becomes the title."""
    return [
        Case(name, title.replace("_", " "), steps if isinstance(steps, tuple) else (steps,))
        for title, steps in cases.items()
    ]


def body_bytes(body: Json) -> bytes | None:
    """Return the encoded body."""
    return body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
