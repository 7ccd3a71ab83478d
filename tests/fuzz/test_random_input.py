"""Random JSON, YAML, patches, queries and plain noise: never a 5xx, never a restart, never unbounded memory."""

from __future__ import annotations

import http.client
import json
import os
from collections.abc import Generator as Yields
from typing import Any

import pytest
import yaml

from benchmarks.processes import resident_bytes
from tarmac.api.catalog import build_catalog
from tarmac.api.resource import Resource
from tests.fuzz.objects import Generator
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

ROUNDS = 40 if SOAK else 2
SEED = int(os.environ.get("TARMAC_SEED", "7"))
STORED = [resource for resource in build_catalog() if resource.stored and "create" in resource.verbs]
# Errors that Kubernetes itself reports as 500 or 504; clients know them by their text.
KUBERNETES_FAILS_TOO = (
    b"resourceVersion should not be set on objects to be created",
    b"Too large resource version",
    b"strconv.ParseUint: parsing",  # the resourceVersion of a watch
)
PATCHES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]


def is_failure(status: int, body: bytes) -> bool:
    """Return true for a fault of ours. Patches that do not fit are 500 without a reason in Kubernetes, too."""
    return status >= 500 and b'"reason":' in body and not any(words in body for words in KUBERNETES_FAILS_TOO)


class Door:
    """One connection that detects failures in responses."""

    def __init__(self, server: TarmacProcess) -> None:
        self._server = server
        self._pid = server.pid
        host, port = server.authority.split(":")
        self._connection = http.client.HTTPSConnection(host, int(port), context=server.client_context(), timeout=20)

    def send(self, method: str, path: str, body: bytes, content_type: str = "application/json") -> int:
        """Send and assert that the server neither failed nor closed the connection."""
        self._connection.request(method, path, body, {"Content-Type": content_type, "User-Agent": "fuzz/1"})
        answer = self._connection.getresponse()
        text = answer.read()
        if is_failure(answer.status, text):
            pytest.fail(f"seed {SEED}: {method} {path} {content_type}\n{body[:3000]!r}\n→ {text.decode()}")
        if answer.status >= 400 and answer.getheader("Content-Type", "").startswith("application/json"):
            assert json.loads(text)["kind"] == "Status"
        assert self._server.pid == self._pid
        assert self._server.running(), "the server died"
        return answer.status

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Yields[TarmacProcess]:
    with TarmacProcess(tmp_path_factory.mktemp("fuzz") / "data") as process:
        yield process


@pytest.fixture
def door(server: TarmacProcess) -> Yields[Door]:
    made = Door(server)
    yield made
    made.close()


def collection(resource: Resource) -> str:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/default/{resource.plural}" if resource.namespaced else f"{root}/{resource.plural}"


@pytest.mark.soak(minutes=0.3)
@pytest.mark.timeout(240)
@pytest.mark.parametrize("resource", STORED, ids=lambda resource: f"{resource.group or 'core'}-{resource.plural}")
def test_objects_that_are_nearly_right(resource: Resource, door: Door) -> None:
    generator = Generator(SEED)
    path = collection(resource)
    for number in range(ROUNDS * 10):
        name = f"fuzz-{number}"
        body: Any = generator.object_of(resource, name)
        if number % 3:
            door.send("POST", path, json.dumps(body).encode())
        else:
            door.send("POST", path, yaml.safe_dump(body, allow_unicode=True).encode(), "application/yaml")
        door.send("PUT", f"{path}/{name}", json.dumps(generator.object_of(resource, name)).encode())
        patch = generator.value(resource.schema, 0) if number % 4 else generator.anything(0)
        content_type = generator.dice.choice(PATCHES)
        if content_type.startswith("application/json-patch"):
            patch = [{"op": generator.dice.choice(["add", "remove", "replace", "test", "move", "copy"]),
                      "path": generator.dice.choice(["/metadata/labels/a", "/spec", "", "/x/0/-", "spec", "/~2"]),
                      "from": "/metadata", "value": generator.anything(0)}]  # fmt: skip
        query = "?fieldManager=fuzz&force=true" if "apply" in content_type else "?fieldValidation=Strict"
        door.send("PATCH", f"{path}/{name}{query}", json.dumps(patch).encode(), content_type)
        door.send("DELETE", f"{path}/{name}", b"")


@pytest.mark.soak(minutes=0.3)
@pytest.mark.timeout(120)
def test_noise(door: Door) -> None:
    dice = Generator(SEED).dice
    for number in range(ROUNDS * 50):
        noise = dice.randbytes(dice.choice([1, 10, 1000]))
        kinds = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", ""]
        body = (b"k8s\x00" + noise) if number % 5 == 0 else (b'{"metadata":' + noise) if number % 5 == 1 else noise
        door.send("POST", "/api/v1/namespaces/default/pods", body, dice.choice(kinds))


@pytest.mark.soak(minutes=0.3)
@pytest.mark.timeout(120)
def test_odd_queries(door: Door) -> None:
    generator = Generator(SEED)
    names = [
        "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector", "watch",
        "timeoutSeconds", "sendInitialEvents", "allowWatchBookmarks", "dryRun", "pretty", "fieldValidation",
    ]  # fmt: skip
    from urllib.parse import quote

    for _ in range(ROUNDS * 50):
        pairs = {name: str(generator.anything(9)) for name in generator.dice.sample(names, 2)}
        pairs["timeoutSeconds"] = "0" if "watch" not in pairs else "1"
        if pairs.get("watch", "").lower() in ("true", "1"):
            continue
        query = "&".join(f"{name}={quote(value)}" for name, value in pairs.items())
        door.send("GET", f"/api/v1/namespaces/default/configmaps?{query}", b"")


@pytest.mark.soak(minutes=0.3)
@pytest.mark.timeout(120)
def test_memory_stays_bounded_under_refused_input(server: TarmacProcess, door: Door) -> None:
    deep = b'{"metadata":{"name":"x"},"data":' + b"[" * 5000 + b"]" * 5000 + b"}"
    wide = json.dumps({"metadata": {"name": "x"}, "unknown": {str(n): n for n in range(20000)}}).encode()
    for body in (deep, wide):
        door.send("POST", "/api/v1/namespaces/default/configmaps", body)
    before = resident_bytes([server.pid])
    for _ in range(ROUNDS * 5):
        for body in (deep, wide):
            door.send("POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Strict", body)
    assert resident_bytes([server.pid]) - before < 40_000_000
