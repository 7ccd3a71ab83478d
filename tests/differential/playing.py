"""Runs a case on one server and records the visible parts of every response."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import yaml

from tests.differential.normalising import Normaliser
from tests.differential.servers import Answer, Server
from tests.differential.steps import Case, Json, Step, body_bytes

_VARIABLE = re.compile(r"\$(\w+)")


class Play:
    """One case on one server, in a namespace with the same name on both."""

    def __init__(self, server: Server, namespace: str) -> None:
        self._server = server
        self._variables = {"ns": namespace}
        self._normalise = Normaliser()

    def run(self, case: Case) -> list[Json]:
        """Return the records, one for each step, including those inside watches."""
        return [seen for step in case.steps for seen in self._step(step)]

    def _step(self, step: Step) -> Iterator[Json]:
        if step.events:
            yield from self._watch(step)
            return
        path, headers, body = self._filled(step)
        prefix = find(step.body, "metadata.generateName")
        if prefix:
            self._normalise.expect_names(prefix)
        answer = self._server.send(step.method, path, headers, body, step.as_admin)
        yield self._seen(step, answer)

    def _watch(self, step: Step) -> Iterator[Json]:
        path, headers, _ = self._filled(step)
        with self._server.stream(path, headers, step.as_admin) as (answer, lines):
            for inner in step.during:
                yield from self._step(inner)
            events = [json.loads(line) for line in itertools.islice(lines, step.events)]
        seen = self._seen(step, answer)
        self._keep(step, events)
        events = self._normalise(events)
        yield {**seen, "events": step.view(events) if step.view else events}

    def _filled(self, step: Step) -> tuple[str, dict[str, str], bytes | None]:
        body = body_bytes(step.body)
        headers = {"Content-Type": "application/json"} if body is not None else {}
        headers |= {name: self._fill(value) for name, value in step.headers.items()}
        filled = self._fill(body.decode()).encode() if body is not None and _is_text(body) else body
        return self._fill(step.path), headers, filled

    def _fill(self, text: str) -> str:
        return _VARIABLE.sub(lambda found: self._variables.get(found[1], found[0]), text)

    def _seen(self, step: Step, answer: Answer) -> Json:
        content_type = answer.headers.get("content-type", "")
        body = _decoded(content_type, answer.body)
        self._keep(step, body)
        seen = {
            "status": answer.status,
            "type": content_type,
            "warnings": [self._normalise(each) for each in answer.warnings],
            "body": self._normalise(body),
        }
        if step.shown:
            seen["headers"] = {name: self._normalise(answer.headers.get(name)) for name in step.shown}
        if step.view and answer.status < 400 and not step.events:
            seen["body"] = step.view(seen["body"])
        return seen

    def _keep(self, step: Step, body: Any) -> None:
        for name, path in step.kept.items():
            value = find(body, path)
            if value is not None:
                self._variables[name] = str(value)


def find(body: Any, path: str) -> Any:
    """Return the value at a dotted path, where a number picks from a list; None when it is missing."""
    for part in path.split("."):
        if isinstance(body, list) and part.lstrip("-").isdigit():
            body = body[int(part)] if -len(body) <= int(part) < len(body) else None
        else:
            body = body.get(part) if isinstance(body, dict) else None
    return body


def play(case: Case, namespace: str, server: Server) -> list[Json]:
    """Run a whole case in a new namespace."""
    _prepare(server, namespace)
    return Play(server, namespace).run(case)


def _prepare(server: Server, namespace: str) -> None:
    """Create a namespace, and its pods' account where no controller does that."""
    body = json.dumps({"metadata": {"name": namespace}}).encode()
    made = server.send("POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, body, True)
    assert made.status == 201, made.body
    account = json.dumps({"metadata": {"name": "default"}}).encode()
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    made = server.send("POST", path, {"Content-Type": "application/json"}, account, True)
    assert made.status in (201, 409), made.body


def wait_until_served(server: Server, path: str, seconds: float = 30) -> None:
    """Wait until a path responds with success."""
    deadline = time.monotonic() + seconds
    while (answer := server.send("GET", path, {}, None, True)).status != 200:
        assert time.monotonic() < deadline, (server.name, path, answer.body)
        time.sleep(0.1)


def _is_text(body: bytes) -> bool:
    return not body.startswith(b"k8s\0") and body.isascii()


def _decoded(content_type: str, body: bytes) -> Any:
    if (content_type.startswith("application/json") and body) or body.startswith(b'{"'):
        return json.loads(body)
    if content_type.startswith("application/yaml"):
        return yaml.safe_load(body)
    return body.decode(errors="backslashreplace")
