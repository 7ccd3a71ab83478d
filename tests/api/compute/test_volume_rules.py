"""Rules of volumes, disks and attachments."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import DISK, GONE, SPEC, C, Row, T, World, causes, identified, workload

VOLUMES: list[Row] = [
    ("D1 no name", {f"{T}.volumes[0].name": "", f"{C}[0].volumeAttachments": []}, [f"Required {T}.volumes[0].name"]),
    (
        "D1 bad name",
        {f"{T}.volumes[0].name": "Da_ta", f"{C}[0].volumeAttachments": [{"name": "Da_ta", "mountPath": "/d"}]},
        [f"Invalid {T}.volumes[0].name"],
    ),
    ("D1 twice", {f"{T}.volumes[1]": {"name": "data", "memory": {}}}, [f"Duplicate {T}.volumes[1].name"]),
    ("D2 not attached", {f"{C}[0].volumeAttachments": []}, [f"Required {T}.volumes[0].name"]),
    (
        "D3 device name twice",
        {
            f"{DISK}.deviceName": "d",
            f"{T}.volumes[1]": {
                "name": "b",
                "disk": {"deviceName": "d", "template": {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}},
            },
            f"{C}[1].volumeAttachments": [{"name": "b"}],
        },
        [f"Duplicate {T}.volumes[1].disk.deviceName"],
    ),
    ("D3 device name syntax", {f"{DISK}.deviceName": "A" * 61}, [f"Invalid {DISK}.deviceName"]),
    ("D4 no source", {DISK: GONE}, [f"Required {T}.volumes[0]"]),
    ("D4 two sources", {f"{T}.volumes[0].secret": {}}, [f"Forbidden {T}.volumes[0].secret"]),
    ("D5 no template", {DISK: {}, f"{C}[0].volumeAttachments[0].mountPath": GONE}, [f"Required {DISK}.template"]),
    ("D6 disk type", {f"{SPEC}.type": "pd-ssd"}, [f"NotSupported {SPEC}.type"]),
    ("D7 image", {f"{SPEC}.populator": {"image": {"name": "x"}}}, [f"NotSupported {SPEC}.populator.image.name"]),
    ("D8 filesystem", {f"{SPEC}.populator.filesystem.type": "xfs"}, [f"NotSupported {SPEC}.populator.filesystem.type"]),
    (
        "D9 two populators",
        {f"{SPEC}.populator.image": {"name": "datumcloud/ubuntu-2204-lts"}, f"{SPEC}.resources": GONE},
        [f"Forbidden {SPEC}.populator.filesystem"],
    ),
    ("D10 no size", {f"{SPEC}.resources": GONE}, [f"Required {SPEC}.resources"]),
    ("D11 no requests", {f"{SPEC}.resources": {}}, [f"Required {SPEC}.resources.requests"]),
    ("D11 no storage", {f"{SPEC}.resources.requests": {"cpu": "1"}}, [f"Required {SPEC}.resources.requests[storage]"]),
    *[
        (
            f"D11 size {size}",
            {f"{SPEC}.resources.requests.storage": size},
            [f"Invalid {SPEC}.resources.requests[storage]"],
        )
        for size in ("0", "-1Gi", "9Gi", "101Gi", "10.5Gi", "256m", "many")
    ],
    (
        "D12 smaller than the image",
        {
            f"{SPEC}.populator": {"image": {"name": "datumcloud/ubuntu-2204-lts"}},
            f"{SPEC}.resources.requests.storage": "20Gi",
        },
        [f"Invalid {SPEC}.resources.requests[storage]"],
    ),
    (
        "D13 configMap without a name, mode out of range",
        {f"{T}.volumes[0]": {"name": "data", "configMap": {"defaultMode": 0o1000}}},
        [f"Required {T}.volumes[0].configMap.name", f"Invalid {T}.volumes[0].configMap.defaultMode"],
    ),
    (
        "D14 items",
        {
            f"{T}.volumes[0]": {
                "name": "data",
                "secret": {"items": [{"path": "/a"}, {"key": "k", "path": "../x", "mode": -1}, {"key": "k"}]},
            }
        },
        [
            f"Required {T}.volumes[0].secret.secretName",
            f"Required {T}.volumes[0].secret.items[0].key",
            f"Invalid {T}.volumes[0].secret.items[0].path",
            f"Invalid {T}.volumes[0].secret.items[1].path",
            f"Invalid {T}.volumes[0].secret.items[1].mode",
            f"Required {T}.volumes[0].secret.items[2].path",
        ],
    ),
    (
        "D15 unknown volume",
        {f"{C}[1].volumeAttachments": [{"name": "nope", "mountPath": "/n"}]},
        [f"NotFound {C}[1].volumeAttachments[0].name"],
    ),
    (
        "D16 mounted twice at one path",
        {f"{C}[0].volumeAttachments[1]": {"name": "data", "mountPath": "/data"}},
        [f"Duplicate {C}[0].volumeAttachments[1].mountPath"],
    ),
    ("D17 no filesystem", {f"{SPEC}.populator": GONE}, [f"NotFound {C}[0].volumeAttachments[0].mountPath"]),
    (
        "mount path is absolute",
        {f"{C}[0].volumeAttachments[0].mountPath": "data"},
        [f"Invalid {C}[0].volumeAttachments[0].mountPath"],
    ),
    (
        "mount path without ..",
        {f"{C}[0].volumeAttachments[0].mountPath": "/a/../b"},
        [f"Invalid {C}[0].volumeAttachments[0].mountPath"],
    ),
    (
        "a secret needs a mount path",
        {
            f"{T}.volumes[0]": {"name": "data", "secret": {"secretName": "s"}},
            f"{C}[0].volumeAttachments": [{"name": "data"}],
        },
        [f"Required {C}[0].volumeAttachments[0].mountPath"],
    ),
    ("a disk as a device", {f"{C}[0].volumeAttachments": [{"name": "data"}]}, []),
    ("two containers share a disk", {f"{C}[1].volumeAttachments": [{"name": "data", "mountPath": "/data"}]}, []),
]


@pytest.mark.parametrize(("edits", "expected"), identified(VOLUMES))
def test_volumes(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
