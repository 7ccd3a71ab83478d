"""The official `kubernetes` package: typed and dynamic access, watch, patches, errors."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config, dynamic, watch

# The library leaks sockets and uses deprecated calls; these tests ignore both.
pytestmark = pytest.mark.filterwarnings("ignore")

NAMESPACE = "official-client"


@pytest.fixture(scope="module")
def api(kubeconfig: Path) -> Generator[Any]:
    with config.new_client_from_config(str(kubeconfig)) as connection:
        core = client.CoreV1Api(connection)
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
        yield connection


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"suite": "official"}), data=data)


def test_create_read_replace_and_delete(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    made = core.create_namespaced_config_map(NAMESPACE, config_map("crud", color="red"))
    assert made.metadata.uid
    assert made.metadata.resource_version
    made.data["color"] = "blue"
    replaced = core.replace_namespaced_config_map("crud", NAMESPACE, made)
    assert int(replaced.metadata.resource_version) > int(made.metadata.resource_version)
    assert core.read_namespaced_config_map("crud", NAMESPACE).data == {"color": "blue"}
    core.delete_namespaced_config_map("crud", NAMESPACE)
    with pytest.raises(client.ApiException) as refused:
        core.read_namespaced_config_map("crud", NAMESPACE)
    assert refused.value.status == 404


def test_a_stale_replace_is_a_conflict(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    stale = core.create_namespaced_config_map(NAMESPACE, config_map("race", n="1"))
    core.patch_namespaced_config_map("race", NAMESPACE, {"data": {"n": "2"}})
    with pytest.raises(client.ApiException) as refused:
        core.replace_namespaced_config_map("race", NAMESPACE, stale)
    assert refused.value.status == 409


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/strategic-merge-patch+json", {"data": {"b": "2"}}),
        ("application/merge-patch+json", {"data": {"b": "2"}}),
        ("application/json-patch+json", [{"op": "add", "path": "/data/b", "value": "2"}]),
    ],
)
def test_each_patch_type(api: Any, content_type: str, body: object) -> None:
    core: Any = client.CoreV1Api(api)
    name = "patch-" + content_type.split("/")[1].split("-")[0] + "-" + str(len(content_type))
    core.create_namespaced_config_map(NAMESPACE, config_map(name, a="1"))
    patched = core.patch_namespaced_config_map(name, NAMESPACE, body, _content_type=content_type)
    assert patched.data == {"a": "1", "b": "2"}


def test_server_side_apply_through_the_dynamic_client(api: Any) -> None:
    resource = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied", "namespace": NAMESPACE},
        "data": {"x": "1"},
    }
    resource.server_side_apply(body, field_manager="suite", force_conflicts=True)
    managers = resource.get(name="applied", namespace=NAMESPACE).metadata.managedFields
    assert [(entry.manager, entry.operation) for entry in managers] == [("suite", "Apply")]


def test_watch_shows_every_change_after_a_list(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    listed = core.list_namespaced_config_map(NAMESPACE)
    writer = threading.Thread(target=_three_changes, args=(core,))
    writer.start()
    seen: list[tuple[str, str]] = []
    stream = watch.Watch()
    events: Any = stream.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version=listed.metadata.resource_version,
        field_selector="metadata.name=watched",
        timeout_seconds=20,
    )
    for event in events:
        seen.append((event["type"], event["object"].data["n"]))
        if event["type"] == "DELETED":
            stream.stop()
    writer.join()
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


def _three_changes(core: Any) -> None:
    core.create_namespaced_config_map(NAMESPACE, config_map("watched", n="1"))
    core.patch_namespaced_config_map("watched", NAMESPACE, {"data": {"n": "2"}})
    core.delete_namespaced_config_map("watched", NAMESPACE)


def test_a_list_in_pages_is_whole(api: Any) -> None:
    core: Any = client.CoreV1Api(api)
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}"))
    names: list[str] = []
    token = None
    while True:
        page: Any = core.list_namespaced_config_map(
            NAMESPACE, limit=3, _continue=token, label_selector="suite=official"
        )
        names += [item.metadata.name for item in page.items if item.metadata.name.startswith("page-")]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)]


def test_an_invalid_object_names_every_field(api: Any) -> None:
    pod = client.V1Pod(
        metadata=client.V1ObjectMeta(name="Bad"),
        spec=client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="Bad")]),
    )
    with pytest.raises(client.ApiException) as refused:
        client.CoreV1Api(api).create_namespaced_pod(NAMESPACE, pod)
    assert refused.value.status == 422
    fields = {cause["field"] for cause in json.loads(str(refused.value.body))["details"]["causes"]}
    assert {"metadata.name", "spec.containers[0].name", "spec.containers[0].image"} <= fields
