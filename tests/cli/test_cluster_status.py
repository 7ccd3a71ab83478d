"""`tarmac status`: one screen about a healthy cluster, an unhealthy one, and one with few readable objects."""

from __future__ import annotations

import asyncio
import io
import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.networking.tunnels import ANNOTATION_TUNNEL, NodeTunnel, write_tunnel
from tarmac.apps.control_plane import local_transport
from tarmac.apps.main import main
from tarmac.base.clock import ManualClock, rfc3339, rfc3339_micro
from tarmac.cli.verbs.clusterstatus import status
from tarmac.cli.verbs.console import Console
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply
from tarmac.server.security.users import User
from tests.cli.test_node_report import Listing
from tests.server.streams.planet import planet

NOW = 1_800_000_000.0
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
LOCATIONS = "/apis/networking.datumapis.com/v1alpha/locations"
BACKUPS = "/api/v1/namespaces/kube-system/configmaps/tarmac-backups"
METRICS = """\
# HELP tarmac_leader x
tarmac_leader 0
tarmac_certificate_expiry_seconds{name="ca"} 300000000
tarmac_certificate_expiry_seconds{name="server"} 31000000
tarmac_node_ready{node="dfw-0",location="dfw"} 1
"""
READY = "[+]ping ok\n[+]store ok\nreadyz check passed\n"


class Cluster(Listing):
    """Fake lists, and the two pages of text."""

    def __init__(self, lists: dict[str, Any], texts: dict[str, tuple[int, str]]) -> None:
        super().__init__(lists)
        self._texts = texts

    async def request(self, request: ClientRequest) -> Reply:
        if request.path in self._texts:
            code, text = self._texts[request.path]
            return Reply(code, {}, text.encode())
        return await super().request(request)


def node(name: str, ready: str = "True", reason: str = "KubeletReady", version: str = "0.2.0") -> dict[str, Any]:
    condition = {"type": "Ready", "status": ready, "reason": reason}
    return {
        "metadata": {"name": name, "annotations": {"tarmac.dev/version": version}},
        "status": {"conditions": [condition]},
    }


def location(name: str, ready: int, nodes: int) -> dict[str, Any]:
    verdict = {"type": "Ready", "status": "True" if ready else "False", "reason": "Ready" if ready else "NoNodeReady"}
    return {
        "metadata": {"name": name},
        "spec": {"topology": {"topology.datum.net/city-code": name.upper()}},
        "status": {"readyNodes": ready, "nodes": nodes, "conditions": [verdict]},
    }


def lease(name: str, holder: str, renewed: float = NOW - 2) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "renewTime": rfc3339_micro(renewed), "leaseDurationSeconds": 15}
    return {"metadata": {"name": name, "annotations": {"tarmac.dev/version": "0.2.0"}}, "spec": spec}


def lists(**other: Any) -> dict[str, Any]:
    return {
        LEASES: [lease("apiserver-1", "https://192.0.2.1:6443")],
        f"{LEASES}/tarmac-controllers": lease("tarmac-controllers", "host_1"),
        LOCATIONS: [location("dfw", 2, 2), location("sea", 0, 0)],
        "/api/v1/nodes": [node("dfw-0"), node("dfw-1")],
        BACKUPS: {"metadata": {"name": "tarmac-backups"}, "data": {"time": rfc3339(NOW - 7 * 3600)}},
        **other,
    }


def shown(
    found: dict[str, Any], metrics: str = METRICS, ready: str = READY, output: str = "text", code: int = 200
) -> tuple[int, str]:
    texts = {"/metrics": (200, metrics), "/readyz": (code, ready)}
    out = io.StringIO()
    client = Client(Cluster(found, texts), ManualClock(NOW))
    exit_code = asyncio.run(status(client, Console(out, io.StringIO()), output))
    return exit_code, out.getvalue()


def test_a_cluster_that_is_well_fits_a_screen() -> None:
    assert shown(lists()) == (0, textwrap.dedent("""\
        Servers:       1 of 1 ready
        Store:         healthy
        Leader:        host_1
        Cities:        DFW 2/2, SEA 0/0
        Nodes:         2 of 2 ready
        Tunnels:       not probed
        Versions:      servers 0.2.0 (1); nodes 0.2.0 (2)
        Certificates:  none expiring within 30 days
        Backup:        7h old
        Problems:      none
        """))  # fmt: skip


def test_stock_controllers_have_a_line_once_they_have_run() -> None:
    found = lists(**{f"{LEASES}/kube-controller-manager": lease("kube-controller-manager", "host_2")})
    code, text = shown(found)
    assert code == 0
    assert "Kubernetes:    led by host_2\n" in text
    assert json.loads(shown(found, output="json")[1])["kubernetesControllers"] == "host_2"
    found[f"{LEASES}/kube-controller-manager"] = lease("kube-controller-manager", "host_2", NOW - 61)
    code, text = shown(found)
    assert code == 1
    assert "Kubernetes:    not led\n" in text
    assert "Problems:      no kube-controller-manager leads" in text


def test_members_of_etcd_have_a_line_and_the_command_that_replaces_a_lost_one() -> None:
    responds = "".join(f'tarmac_etcd_member_responds{{name="{name}"}} 1\n' for name in ("one", "two", "three"))
    code, text = shown(lists(), METRICS + responds)
    assert code == 0
    assert "Etcd:          3 of 3 members respond\n" in text
    lost = METRICS + responds.replace('"three"} 1', '"three"} 0')
    code, text = shown(lists(), lost)
    assert code == 1
    assert "Etcd:          2 of 3 members respond; not three\n" in text
    assert json.loads(shown(lists(), lost, output="json")[1])["problems"] == [
        "etcd member three does not respond, and one more loss stops writes; if its host is lost: "
        "tarmac etcd replace three"
    ]


def test_the_worst_comes_first_and_the_rest_behind_it() -> None:
    found = lists()
    found["/api/v1/nodes"][1] = node("dfw-1", "Unknown", "NodeStatusUnknown", "0.1.0")
    found[LOCATIONS].append(location("lhr", 0, 3))
    found[BACKUPS]["data"]["time"] = rfc3339(NOW - 3 * 86400)
    metrics = METRICS.replace("31000000", "864000") + "tarmac_restored_conflicts 2\n"
    ready = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n"
    code, text = shown(found, metrics, ready, code=500)
    assert code == 1
    assert text.splitlines()[-6:] == [
        "Problems:      store: the check store fails",
        "Also: node dfw-1: NodeStatusUnknown",
        "Also: location lhr: NoNodeReady",
        "Also: 2 running pods are not as a restored state has them",
        "Also: certificate server expires in 10d",
        "Also: the newest backup is 3d old",
    ]
    assert "nodes 0.1.0 (1), 0.2.0 (1)" in text
    document = json.loads(shown(found, metrics, ready, "json", 500)[1])
    assert document["fine"] is False
    assert document["worst"] == document["problems"][0] == "store: the check store fails"
    assert document["nodes"][1] == {"name": "dfw-1", "version": "0.1.0", "trouble": "NodeStatusUnknown"}


def with_tunnels(made: dict[str, Any], status: str, message: str) -> dict[str, Any]:
    made["status"]["conditions"].append({"type": "TunnelsReachable", "status": status, "message": message})
    return made


def test_a_closed_tunnel_has_a_line_and_is_a_problem_once() -> None:
    found = lists()
    closed = (("dfw-0", "4789/udp to dfw-1 is closed"), ("dfw-1", "4789/udp from dfw-0 is closed"))
    found["/api/v1/nodes"] = [with_tunnels(node(name), "False", message) for name, message in closed]
    code, text = shown(found)
    assert code == 1
    assert "Nodes:         2 of 2 ready\nTunnels:       closed: dfw-0 to dfw-1, 4789/udp\n" in text
    assert text.endswith("Problems:      tunnel closed: dfw-0 to dfw-1, 4789/udp\n")
    document = json.loads(shown(found, output="json")[1])
    assert document["tunnels"] == {"closed": ["dfw-0 to dfw-1, 4789/udp"], "probed": True, "userspace": []}
    found["/api/v1/nodes"] = [with_tunnels(node(name), "True", "all answer") for name, _ in closed]
    assert "Tunnels:       open\n" in shown(found)[1]


def test_nodes_that_encrypt_without_the_kernels_driver_are_named() -> None:
    found = lists()
    made = [with_tunnels(node(f"dfw-{number}"), "True", "all answer") for number in range(8)]
    for number, each in enumerate(made):
        encryption = "kernel" if number == 3 else "userspace"
        each["metadata"]["annotations"][ANNOTATION_TUNNEL] = write_tunnel(NodeTunnel(True, encryption, "key"))
    found["/api/v1/nodes"] = made
    code, text = shown(found)
    slow = "slow between cities, by wireguard-go: dfw-0, dfw-1, dfw-2, dfw-4, dfw-5 and 2 more"
    assert f"Tunnels: open; {slow} Versions:" in " ".join(text.split())
    assert code == 0, "no problem: packets arrive"
    named = json.loads(shown(found, output="json")[1])["tunnels"]["userspace"]
    assert named == [f"dfw-{number}" for number in range(8) if number != 3]


def test_of_a_node_that_is_lost_its_tunnels_say_nothing() -> None:
    found = lists()
    found["/api/v1/nodes"] = [
        with_tunnels(node("dfw-0"), "False", "4789/udp from dfw-1 is closed"),
        with_tunnels(node("dfw-1", "Unknown", "NodeStatusUnknown"), "False", "4789/udp to dfw-0 is closed"),
    ]
    text = shown(found)[1]
    assert "Tunnels:       open\n" in text
    assert "Problems:      node dfw-1: NodeStatusUnknown" in text


@pytest.mark.parametrize(
    "held", [lease("tarmac-controllers", "host_1", NOW - 600), lease("tarmac-controllers", "")], ids=["old", "free"]
)
def test_a_lease_that_nobody_renews_leads_nobody(held: dict[str, Any]) -> None:
    code, text = shown(lists(**{f"{LEASES}/tarmac-controllers": held}))
    assert code == 1
    assert "Leader:        none" in text


def test_no_backup_is_shown_and_no_reason_to_fail() -> None:
    found = lists()
    del found[BACKUPS]
    code, text = shown(found)
    assert code == 0
    assert "Backup:        there is none" in text


def test_names_cannot_talk_to_the_terminal() -> None:
    _, text = shown(lists(**{f"{LEASES}/tarmac-controllers": lease("tarmac-controllers", "a\x1b[2Jb")}))
    assert "\x1b" not in text


async def test_a_user_with_few_rights_sees_the_missing_parts_named(tmp_path: Path) -> None:
    async with planet(tmp_path) as world:
        out = io.StringIO()
        nobody = Client(local_transport(world.running.server, User("jane", groups=("system:authenticated",))))
        assert await status(nobody, Console(out, io.StringIO()), "text") == 0
        assert "Store:         healthy" in out.getvalue()  # every user may read readiness
        assert "Nodes:         ?" in out.getvalue()
        assert "Not seen: may not list nodes\n" in out.getvalue()
        assert "Not seen: may not get /metrics\n" in out.getvalue()
        out = io.StringIO()
        assert await status(world.client, Console(out, io.StringIO()), "json") == 0
        document = json.loads(out.getvalue())
        assert (document["leader"], document["hidden"]) == ("the server", [])
        assert document["servers"][0]["version"] != ""


def test_a_server_that_does_not_answer_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "error:" in capsys.readouterr().err
