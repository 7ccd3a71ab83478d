"""`tarmac join` names the UDP port that a firewall drops between the new node and another one, with the direction."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.machines.boxes import Box, boxes
from tests.machines.planet import KUBECONFIG, location

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

FIREWALL = (
    'table inet firewall { chain in { type filter hook input priority -10 ; iifname "eth0" udp dport 4802 drop ; } ; }'
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[Box, Box]]:
    """A server that is a node in Dallas, and a host that may join in London."""
    with boxes(tmp_path, "alpha", "beta") as (alpha, beta):
        alpha.start("init", "--foreground", "--listen", "198.18.0.1:6443", "--location", "dfw").until_said(
            "join another machine"
        )
        alpha.kubectl("create", "-f", "-", stdin=json.dumps(location("lhr")))
        yield alpha, beta


def joined(cluster: tuple[Box, Box]) -> list[str]:
    """Join; return the warnings."""
    alpha, beta = cluster
    made = alpha.run("token", "create", "--location", "lhr", *KUBECONFIG)
    assert made.returncode == 0, made.stderr
    join = beta.start("join", "198.18.0.1", "--token", made.stdout.strip(), "--foreground")
    join.until_said("joined as beta")
    return [line for line in join.said.splitlines() if line.startswith("warning: ") and "udp" in line.lower()]


def block(box: Box) -> None:
    subprocess.run(["nsenter", f"--target={box.pid}", "--net", "nft", FIREWALL], check=True, timeout=10)


def test_a_join_with_open_ports_has_no_warning(cluster: tuple[Box, Box]) -> None:
    assert joined(cluster) == []


@pytest.mark.parametrize(
    ("blocked", "direction", "way"), [(0, "to", "from beta to alpha"), (1, "from", "from alpha to beta")]
)
def test_a_join_names_the_closed_port_its_direction_and_the_remedy(
    cluster: tuple[Box, Box], blocked: int, direction: str, way: str
) -> None:
    block(cluster[blocked])
    assert joined(cluster) == [
        f"warning: 4802/udp {direction} alpha is closed; let UDP port 4802 pass {way} in the firewalls between them"
    ]
