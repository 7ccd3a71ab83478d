"""MachineImages: validation, columns, and the validity of the whole catalogue."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.machineimage import MachineImage, built_in_images
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tests.api.compute.making import (
    GONE,
    Row,
    World,
    causes,
    edited,
    errors_of,
    identified,
    machines,
    resource,
    workload,
)

SUM = "sha256:" + "0123456789abcdef" * 4
IMAGE: JsonObject = {
    "apiVersion": "compute.datumapis.com/v1alpha",
    "kind": "MachineImage",
    "metadata": {"name": "acme-os"},
    "spec": {"size": "10Gi", "format": "qcow2", "source": {"file": "acme-os.qcow2"}, "checksum": SUM},
}
URL = "https://example.com/a"
KERNEL = {"file": "vmlinuz", "checksum": SUM}


def found(edits: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    before = None if old is None else edited(IMAGE, old)
    return causes(edited(IMAGE, edits), kind="MachineImage", lookup=World(), old=before)


RULES: list[Row] = [
    ("as it should be", {}, []),
    ("known, not to be had yet", {"spec.source": GONE, "spec.checksum": GONE}, []),
    ("no size", {"spec.size": GONE}, ["Required spec.size"]),
    ("no format", {"spec.format": GONE}, ["Required spec.format"]),
    ("a format that nobody reads", {"spec.format": "vmdk"}, ["NotSupported spec.format"]),
    ("a packing that nobody reads", {"spec.compression": "lzma"}, ["NotSupported spec.compression"]),
    ("too small", {"spec.size": "512Mi"}, ["Invalid spec.size"]),
    ("too large", {"spec.size": "101Gi"}, ["Invalid spec.size"]),
    ("a part of a Gi", {"spec.size": "1500Mi"}, ["Invalid spec.size"]),
    ("no sum", {"spec.checksum": GONE}, ["Required spec.checksum"]),
    ("another sum", {"spec.checksum": "md5:1"}, ["Invalid spec.checksum"]),
    ("a sum in capitals", {"spec.checksum": SUM.upper()}, ["Invalid spec.checksum"]),
    ("no place", {"spec.source": {}}, ["Required spec.source"]),
    ("two places", {"spec.source.url": "https://example.com/a"}, ["Forbidden spec.source.url"]),
    ("a path", {"spec.source.file": "../../etc/passwd"}, ["Invalid spec.source.file"]),
    ("an absolute path", {"spec.source.file": "/etc/passwd"}, ["Invalid spec.source.file"]),
    ("a hidden file", {"spec.source.file": ".x"}, ["Invalid spec.source.file"]),
    ("another scheme", {"spec.source": {"url": "file:///etc/passwd"}}, ["Invalid spec.source.url"]),
    ("a password", {"spec.source": {"url": "https://u:p@example.com/a"}}, ["Invalid spec.source.url"]),
    ("no host", {"spec.source": {"url": "https:///a"}}, ["Invalid spec.source.url"]),
    ("a line more", {"spec.source": {"url": "https://example.com/a\nb"}}, ["Invalid spec.source.url"]),
    ("a list of sums", {"spec.source": {"url": URL, "checksums": URL}, "spec.checksum": GONE}, []),
    ("a list of sums of a file", {"spec.source.checksums": URL}, ["Forbidden spec.source.checksums"]),
    ("a list elsewhere", {"spec.source": {"url": URL, "checksums": "x"}}, ["Invalid spec.source.checksums"]),
    ("an address", {"spec.source": {"url": "http://[fd00::1]:8080/a?b=c"}}, []),
    ("a kernel beside it", {"spec.boot": {"kernel": KERNEL, "commandLine": "console=ttyS0"}}, []),
    ("no kernel", {"spec.boot": {"initrd": KERNEL}}, ["Required spec.boot.kernel"]),
    ("a kernel without a sum", {"spec.boot": {"kernel": {"file": "a"}}}, ["Required spec.boot.kernel.checksum"]),
    (
        "two lines",
        {"spec.boot": {"kernel": KERNEL, "commandLine": "a\nb"}},
        ["Invalid spec.boot.commandLine"],
    ),
    ("nobody's name", {"spec.defaultUser": "A"}, ["Invalid spec.defaultUser"]),
    ("old from the start", {"spec.lifecycle": {"phase": "Deprecated"}}, [
        "Invalid spec.lifecycle.phase",
        "Required spec.lifecycle.replacementMachineImage",
    ]),
    (
        "a replacement that is old itself",
        {"spec.lifecycle": {"phase": "Active", "replacementMachineImage": "old"}},
        ["Invalid spec.lifecycle.replacementMachineImage"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("edits", "expected"), identified(RULES))
def test_machine_images(edits: dict[str, Any], expected: list[str]) -> None:
    assert found(edits) == expected


def test_a_life_cycle_goes_forward_and_a_source_may_change() -> None:
    deprecated = {"spec.lifecycle": {"phase": "Deprecated", "replacementMachineImage": "tarmac-tiny"}}
    assert found(deprecated, {}) == []
    assert found({}, deprecated) == ["Invalid spec.lifecycle.phase"]
    assert found({"spec.source": {"url": "https://example.com/a"}, "spec.size": "11Gi"}, {}) == []


def test_refusals_say_what_would_be_accepted() -> None:
    (error,) = errors_of(edited(IMAGE, {"spec.source.file": "a/b"}), kind="MachineImage")
    assert error.detail == "must be the name of a file, without '/': letters, digits, '.', '-', '_'"


@pytest.mark.parametrize("image", built_in_images(), ids=lambda image: image["metadata"]["name"])
def test_the_catalogue_is_valid(image: JsonObject) -> None:
    assert causes(image, kind="MachineImage") == []
    assert decode(MachineImage, image).spec.accepts == "cloud-init"


def cells(kind: str, obj: JsonObject) -> dict[str, Any]:
    return {column.name: column.value(obj) for column in resource(kind).columns if column.name != "Age"}


def test_tables_tell_machines_from_sandboxes() -> None:
    shown = {"Name": "acme-os", "Format": "qcow2", "Size": "10Gi", "Source": "file", "Phase": None}
    assert cells("MachineImage", IMAGE) == shown
    assert [cells("MachineImage", each)["Source"] for each in built_in_images()] == ["url", "<none>", "<none>"]
    assert cells("Workload", machines())["Image"] == "datumcloud/ubuntu-2204-lts"
    assert cells("Workload", workload())["Image"] == "ghcr.io/acme/app:1,ghcr.io/acme/sidecar:1"
    for obj, runtime in ((machines(), "machine"), (workload(), "sandbox")):
        instance = {"metadata": {"name": "a"}, "spec": obj["spec"]["template"]["spec"]}
        assert cells("Instance", instance)["Runtime"] == runtime
