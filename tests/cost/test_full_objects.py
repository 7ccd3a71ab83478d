"""An object of maximum size can still be changed and deleted, although the server adds to it.

Controllers remove finalizers by patches. An object that a patch rejects stays for ever, and its namespace with it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.decode.limits import MAX_LABELS
from tests.cost.bases import base
from tests.cost.measuring import ADMIN, Server, collection, serving

MERGE = "application/merge-patch+json"
KINDS = [each for each in build_catalog() if each.stored and {"create", "patch"} <= set(each.verbs)]
GENERATED = {"jobs": 4, "namespaces": 1}  # labels that the server adds


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving(tmp_path) as running:
        yield running


def labels(count: int) -> dict[str, str]:
    return {f"k{number}": "v" for number in range(count)}


async def test_an_object_with_all_its_labels_can_be_patched(server: Server) -> None:
    made: list[str] = []
    for resource in KINDS:
        for count in (MAX_LABELS - GENERATED.get(resource.plural, 0), MAX_LABELS):
            obj: dict[str, Any] = base(resource, f"full-{count}")
            obj["metadata"]["labels"] = labels(count)
            if resource.plural == "jobs":  # its metadata gets the labels of its template
                template = obj["spec"]["template"] | {"metadata": {"labels": labels(count)}}
                obj["spec"] = obj["spec"] | {"template": template}
            path = collection(resource)
            if (await server.send("POST", path, obj, user=ADMIN)).status != 201:
                continue
            for patch in ({"annotations": {"a": "b"}}, {"finalizers": ["a.example/x"]}, {"finalizers": None}):
                reply = await server.send("PATCH", f"{path}/full-{count}", {"metadata": patch}, MERGE, user=ADMIN)
                assert reply.status == 200, (resource.plural, reply.body)
            made.append(resource.plural)
    assert {"jobs", "deployments", "pods", "namespaces", "configmaps"} <= set(made)
    assert made.count("jobs") == made.count("namespaces") == 1, "an object without room for additions is rejected"


async def test_a_pod_with_all_its_labels_is_bound_and_can_be_patched(server: Server) -> None:
    zone = {"topology.kubernetes.io/zone": "z", "topology.kubernetes.io/region": "r"}
    await server.send("POST", "/api/v1/nodes", {"metadata": {"name": "n", "labels": zone}}, user=ADMIN)
    pods = "/api/v1/namespaces/default/pods"
    for name, count in (("few", 3), ("full", MAX_LABELS)):
        pod = {
            "metadata": {"name": name, "labels": labels(count)},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        assert (await server.send("POST", pods, pod)).status == 201
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "n"}}
        assert (await server.send("POST", f"{pods}/{name}/binding", binding, user=ADMIN)).status == 201
        patch = {"metadata": {"finalizers": ["a.example/x"]}}
        reply = await server.send("PATCH", f"{pods}/{name}", patch, MERGE)
        assert reply.status == 200, reply.body
        given = json.loads(reply.body)
        assert given["spec"]["nodeName"] == "n"
        assert ("topology.kubernetes.io/zone" in given["metadata"]["labels"]) is (name == "few")
