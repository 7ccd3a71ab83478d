"""Rules of the template and its runtime, and of virtual machines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import GONE, SPEC, R, Row, T, V, World, causes, identified, machines, workload

SSH = "spec.template.annotations[compute.datumapis.com/ssh-keys]"
KEYS = "spec.template.metadata.annotations"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f a@b"


def ssh(text: str) -> dict[str, Any]:
    return {KEYS: {"compute.datumapis.com/ssh-keys": text}}


TEMPLATE: list[Row] = [
    ("A2 no colon", ssh("me"), [f"Invalid {SSH}[0]"]),
    ("A2 not even ASCII", ssh(f"a:{KEY.replace('ERIT', 'ERé')}"), [f"Invalid {SSH}[0]"]),
    ("A3 no user, A4 no key", ssh(f"a:{KEY}\n:x"), [f"Required {SSH}[1]", f"Invalid {SSH}[1]"]),
    ("A4 key of another type", ssh("a:" + KEY.replace("ed25519 ", "rsa ", 1)), [f"Invalid {SSH}[0]"]),
    ("A5 no runtime", {f"{T}.runtime.sandbox": GONE, f"{T}.volumes": GONE}, [f"Required {T}.runtime"]),
    ("A6 two runtimes", {V: {"volumeAttachments": []}}, [f"Forbidden {V}"]),
    ("A7 unknown type", {f"{R}.instanceType": "acme/huge"}, [f"NotSupported {R}.instanceType"]),
    ("A7 no type", {R: {"instanceType": ""}}, [f"Required {R}.instanceType"]),
    ("A8 requests beside a fixed type", {f"{R}.requests": {"cpu": "2"}}, [f"Forbidden {R}.requests"]),
    ("label values", {"spec.template.metadata.labels": {"a": "-"}}, ["Invalid spec.template.metadata.labels"]),
    ("no template", {"spec.template": GONE}, ["Required spec.template"]),
]


@pytest.mark.parametrize(("edits", "expected"), identified(TEMPLATE))
def test_templates(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected


MACHINES: list[Row] = [
    ("D18 nothing attached", {f"{V}.volumeAttachments": [], f"{T}.volumes": []}, [f"Required {V}.volumeAttachments"]),
    (
        "D19 not bootable",
        {f"{SPEC}": {"populator": {"filesystem": {"type": "ext4"}}, "resources": {"requests": {"storage": "10Gi"}}}},
        [f"Required {V}.volumeAttachments[0].name"],
    ),
    ("a machine without SSH keys", {}, []),
    ("a machine with SSH keys", ssh(f"ubuntu:{KEY}\n root:{KEY} "), []),
    (
        "cloud-init is inline or in a Secret",
        {f"{V}.cloudInit": {"userData": "x", "secretRef": {"name": ""}}},
        [f"Required {V}.cloudInit.secretRef.name", f"Forbidden {V}.cloudInit.userData"],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), identified(MACHINES))
def test_machines(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(machines(edits), lookup=World()) == expected


def test_an_untouched_workload_is_fine() -> None:
    assert causes(workload(), lookup=World()) == []
