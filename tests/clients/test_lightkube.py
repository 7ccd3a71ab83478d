"""lightkube: create, read, patch of three types, apply, watch, delete."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.client import Client
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace
from lightkube.types import PatchType

# The library leaks sockets and uses deprecated calls; these tests ignore both.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMESPACE = "lightkube-client"


@pytest.fixture(scope="module")
def client(kubeconfig: Path) -> Any:
    made: Any = Client(config=KubeConfig.from_file(str(kubeconfig)), namespace=NAMESPACE, field_manager="lightkube")
    made.create(Namespace(metadata=ObjectMeta(name=NAMESPACE)))
    return made


def thing(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE, labels={"suite": "lightkube"}), data=data)


def test_create_read_replace_and_delete(client: Any) -> None:
    made = client.create(thing("crud", a="1"))
    made.data["a"] = "2"
    client.replace(made)
    assert client.get(ConfigMap, "crud").data == {"a": "2"}
    client.delete(ConfigMap, "crud")
    with pytest.raises(ApiError) as refused:
        client.get(ConfigMap, "crud")
    assert refused.value.status.code == 404


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PatchType.STRATEGIC, {"data": {"b": "2"}}),
        (PatchType.MERGE, {"data": {"b": "2"}}),
        (PatchType.JSON, [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_each_patch_type(client: Any, kind: PatchType, body: object) -> None:
    name = f"patch-{kind.name.lower()}"
    client.create(thing(name, a="1"))
    assert client.patch(ConfigMap, name, body, patch_type=kind).data == {"a": "1", "b": "2"}


def test_apply_owns_what_it_sets(client: Any) -> None:
    body = thing("applied", x="1")
    body.apiVersion, body.kind = "v1", "ConfigMap"
    made = client.apply(body)
    assert [(entry.manager, entry.operation) for entry in made.metadata.managedFields] == [("lightkube", "Apply")]


def test_watch_shows_every_change(client: Any) -> None:
    def changes() -> None:
        client.create(thing("watched", n="1"))
        client.patch(ConfigMap, "watched", {"data": {"n": "2"}})
        client.delete(ConfigMap, "watched")

    version = client.create(thing("before")).metadata.resourceVersion
    writer = threading.Thread(target=changes)
    writer.start()
    seen: list[str] = []
    for kind, item in client.watch(ConfigMap, fields={"metadata.name": "watched"}, resource_version=version):
        seen.append(f"{kind} {item.data['n']}")
        if kind == "DELETED":
            break
    writer.join()
    assert seen == ["ADDED 1", "MODIFIED 2", "DELETED 2"]
