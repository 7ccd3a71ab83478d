"""Rules of network interfaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import N, Row, World, causes, identified, workload

INTERFACES: list[Row] = [
    ("E1 none", {N: []}, [f"Required {N}"]),
    ("E2 bad network name", {f"{N}[0].network.name": "Bad_"}, [f"Invalid {N}[0].network.name"]),
    ("E2 no network", {f"{N}[0]": {}}, [f"Required {N}[0].network.name"]),
    (
        "E4 name twice",
        {N: [{"name": "lan", "network": "a"}, {"name": "lan", "network": "b"}]},
        [f"Duplicate {N}[1].name"],
    ),
    (
        "E4 families",
        {f"{N}[0].ipFamilies": ["IPv4", "IPv5", "IPv4"]},
        [f"NotSupported {N}[0].ipFamilies[1]", f"Duplicate {N}[0].ipFamilies[2]"],
    ),
    (
        "E4 address classes",
        {f"{N}[0].addresses": [{"class": "a"}, {"class": "a"}, {"class": "B"}]},
        [f"Duplicate {N}[0].addresses[1].class", f"Invalid {N}[0].addresses[2].class"],
    ),
    ("E4 reclaim policy", {f"{N}[0].reclaimPolicy": "Keep"}, [f"NotSupported {N}[0].reclaimPolicy"]),
    (
        "policy rules are those of Kubernetes",
        {
            f"{N}[0].networkPolicy": {
                "ingress": [
                    {
                        "ports": [
                            {"port": 80, "endPort": 79},
                            {"port": "http", "endPort": 90},
                            {"endPort": 5},
                            {"protocol": "ICMP"},
                        ],
                        "from": [{}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/9"]}}],
                    }
                ]
            }
        },
        [
            f"Invalid {N}[0].networkPolicy.ingress[0].ports[0].endPort",
            f"Invalid {N}[0].networkPolicy.ingress[0].ports[1].endPort",
            f"Invalid {N}[0].networkPolicy.ingress[0].ports[2].endPort",
            f"NotSupported {N}[0].networkPolicy.ingress[0].ports[3].protocol",
            f"Required {N}[0].networkPolicy.ingress[0].from[0]",
            f"Invalid {N}[0].networkPolicy.ingress[0].from[1].ipBlock.except[1]",
        ],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), identified(INTERFACES))
def test_interfaces(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
