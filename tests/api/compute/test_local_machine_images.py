"""LocalMachineImages: validation of fields that tenants write, and references of Workloads."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.machineimage import (
    LocalMachineImageSpec,
    image_object_name,
    image_owner,
    node_image_name,
    registry_repository,
)
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tests.api.compute.making import GONE, Row, World, causes, edited, machines

SUM = "sha256:" + "0123456789abcdef" * 4
IMAGE: JsonObject = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "LocalMachineImage",
    "metadata": {"name": "os", "namespace": "team-a"},
    "spec": {"size": "10Gi", "format": "qcow2", "source": {"url": "https://example.com/os.qcow2"}, "checksum": SUM},
}

RULES: list[Row] = [
    ("as it should be", {}, []),
    ("no size", {"spec.size": GONE}, ["Required spec.size"]),
    ("too large", {"spec.size": "101Gi"}, ["Invalid spec.size"]),
    ("a format that nobody reads", {"spec.format": "vmdk"}, ["NotSupported spec.format"]),
    ("no source", {"spec.source": GONE}, ["Required spec.source"]),
    ("no sum", {"spec.checksum": GONE}, ["Required spec.checksum"]),
    ("another sum", {"spec.checksum": "md5:1"}, ["Invalid spec.checksum"]),
    ("another scheme", {"spec.source.url": "file:///etc/passwd"}, ["Invalid spec.source.url"]),
    ("a password", {"spec.source.url": "https://u:p@example.com/a"}, ["Invalid spec.source.url"]),
    ("an endless address", {"spec.source.url": "https://example.com/" + "a" * 2048}, ["Invalid spec.source.url"]),
    ("an upload", {"spec.source": {"repository": "os"}}, []),
    ("an upload in a path", {"spec.source": {"repository": "systems/os"}}, []),
    ("neither", {"spec.source": {}}, ["Required spec.source"]),
    ("both", {"spec.source.repository": "os"}, ["Forbidden spec.source.repository"]),
    ("no repository", {"spec.source": {"repository": "../team-b/os"}}, ["Invalid spec.source.repository"]),
    ("an endless repository", {"spec.source": {"repository": "a" * 200}}, ["Invalid spec.source.repository"]),
    ("a node's own address", {"spec.source.url": "oci://registry.tarmac.local/team-b/os"}, ["Invalid spec.source.url"]),
    ("another user", {"spec.defaultUser": "Not A User"}, ["Invalid spec.defaultUser"]),
]


@pytest.mark.parametrize(("name", "edits", "expected"), RULES, ids=[row[0] for row in RULES])
def test_local_images_are_validated(name: str, edits: dict[str, Any], expected: list[str]) -> None:
    found = causes(edited(IMAGE, edits), kind="LocalMachineImage", lookup=World())
    assert [cause.partition(":")[0] for cause in found] == expected


@pytest.mark.parametrize(
    ("written", "expected"), [("./os", []), ("./", ["Invalid"]), ("./Not-A-Name", ["Invalid"]), ("./a/b", ["Invalid"])]
)
def test_a_workload_names_one_of_its_namespace(written: str, expected: list[str]) -> None:
    body = machines()
    body["spec"]["template"]["spec"]["volumes"][0]["disk"]["template"]["spec"]["populator"]["image"]["name"] = written
    assert [cause.partition(" ")[0] for cause in causes(body, lookup=World())] == expected


def test_nodes_are_told_of_an_upload_in_the_repository_of_its_namespace_only() -> None:
    spec = edited(IMAGE, {"spec.source": {"repository": "os"}})["spec"]
    told = decode(LocalMachineImageSpec, spec).for_nodes("team-a").source
    assert told is not None
    assert registry_repository(told.url) == ("team-a", "os")
    assert registry_repository("https://registry.tarmac.local/team-a/os") is None


def test_two_namespaces_and_the_catalogue_never_mean_the_same_image() -> None:
    names = [node_image_name("./os", "team-a"), node_image_name("./os", "team-b"), node_image_name("team-a/os", "x")]
    assert names == ["team-a:os", "team-b:os", "team-a/os"]
    assert [image_owner(each) for each in names] == ["team-a", "team-b", ""]
    assert image_object_name("./os") == "os"
