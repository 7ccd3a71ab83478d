"""`tarmac node report`: the ledger of nodes as a table, in detail and as JSON, on servers with full or partial data."""

from __future__ import annotations

import asyncio
import io
import json
import textwrap
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import parse_qs

import pytest

from tarmac.api.status import Forbidden
from tarmac.apps.commands import parser
from tarmac.apps.main import main
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.nodereport import node_report
from tarmac.client.client import Client
from tarmac.client.transport import ClientRequest, Reply, StreamReply
from tarmac.server.security.users import User
from tests.controllers.planet import Planet, play

CORE, METRICS = "/api/v1", "/apis/metrics.k8s.io/v1beta1"
LOCATIONS = "/apis/networking.datumapis.com/v1alpha/locations"
FORBIDDEN = 403, "Forbidden"


def node(name: str, *, city: str = "DFW", lent: str = "1", **status: Any) -> dict[str, Any]:
    """104 processors, of which 4 are reserved."""
    reservations = [
        {"resource": "cpu", "for": "system", "amount": "2", "source": "file"},
        {"resource": "cpu", "for": "kube", "amount": "2", "source": "provider gke"},
        {"resource": "memory", "for": "eviction", "amount": "100Mi", "source": "default"},
        {"resource": "pid", "for": "system", "amount": "3276", "source": "default"},
    ]
    slow = {"name": "blockio", "classes": [{"name": "slow", "capacity": 4}, {"name": "fast"}]}
    return {
        "metadata": {"name": name, "labels": {"topology.datum.net/city-code": city} if city else {}},
        "status": {
            "capacity": {
                "cpu": "104",
                "cpu oversubscription": lent,
                "cpu exclusive": "100",
                "memory": "64Gi",
                "pods": "110",
            },
            "allocatable": {"cpu": f"{100 + float(lent)}", "memory": "65436Mi", "pods": "110"},
            "reservations": reservations,
            "containerClassResources": [slow],
            "conditions": [{"type": "DiskPressure", "status": "True"}, {"type": "Ready", "status": "True"}],
            **status,
        },
    }


def pod(name: str, node: str, cpu: str, **more: Any) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "1Gi"}
    classes = more.get("classes") or {}
    return {
        "metadata": {"name": name, "namespace": "shop", "annotations": more.get("annotations") or {}},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts, "classes": classes}}],
        },
        "status": {
            "phase": more.get("phase", "Running"),
            "containerStatuses": [{"name": "main", "resources": {"classes": classes}}],
        },
    }


class Listing:
    """A server with these lists. A missing list is a 404; a pair is a status and its reason."""

    def __init__(self, lists: dict[str, Any]) -> None:
        self._lists = lists
        self.asked: list[str] = []

    async def request(self, request: ClientRequest) -> Reply:
        self.asked.append(request.path)
        found = self._lists.get(request.path)
        folder, _, name = request.path.rpartition("/")
        if found is None and isinstance(self._lists.get(folder), list):
            found = next((each for each in self._lists[folder] if each["metadata"]["name"] == name), None)
        if found is None:
            found = 404, "NotFound"
        if isinstance(found, tuple):
            code, reason = found
            return Reply(
                code, {}, json.dumps({"kind": "Status", "reason": reason, "message": "no", "code": code}).encode()
            )
        if isinstance(found, list):
            on = parse_qs(request.query or "").get("fieldSelector", [""])[0].removeprefix("spec.nodeName=")
            found = {"metadata": {}, "items": [each for each in found if not on or each["spec"]["nodeName"] == on]}
        return Reply(200, {}, json.dumps(found).encode())

    def stream(self, request: ClientRequest) -> AbstractAsyncContextManager[StreamReply]:
        raise NotImplementedError

    async def close(self) -> None:
        pass


PODS = [
    pod("web", "dfw-0", "2", annotations={"node.tarmac/cpus": '{"main":"4-5"}'}, classes={"blockio": "slow"}),
    pod("job", "dfw-0", "500m"),
    pod("done", "dfw-0", "50", phase="Succeeded"),
    pod("elsewhere", "lhr-0", "4"),
]
USED = [{"metadata": {"name": "dfw-0"}, "usage": {"cpu": "1234567890n", "memory": "3Gi"}}]
ALL = {
    f"{CORE}/nodes": [node("lhr-0", city="LHR", lent="1.500", conditions=[]), node("dfw-0")],
    f"{CORE}/pods": PODS,
    f"{METRICS}/nodes": USED,
}


def report(lists: dict[str, Any], *names: str, output: str = "text") -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    client = Client(Listing(lists))
    code = asyncio.run(node_report(client, names, Console(out, err), output))
    return code, out.getvalue(), err.getvalue()


def shown(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


def test_without_a_name_there_is_a_line_for_each_node() -> None:
    assert report(ALL) == (0, shown("""
        NODE   CITY  CPU  RESERVED  OVERSUB  ALLOCATABLE  EXCLUSIVE  COMMITTED  USED   PRESSURE
        dfw-0  DFW   104  4         1.000    101          2/100      2500m      1235m  DiskPressure
        lhr-0  LHR   104  4         1.500    101500m      0/100      4          -      -
        """), "")  # fmt: skip


def test_with_a_name_there_is_everything() -> None:
    code, out, err = report(ALL, "dfw-0")
    assert (code, err) == (0, "")
    assert out == shown("""
        Name: dfw-0
        City: DFW
        Pressure: DiskPressure
        Capacity:
          cpu: 104
          cpu oversubscription: 1.000
          cpu exclusive: 100
          memory: 64Gi
          pods: 110
        Reserved:
          cpu:     2      system    file
          cpu:     2      kube      provider gke
          memory:  100Mi  eviction  default
          pid:     3276   system    default
        Allocatable:
          cpu: 101
          memory: 65436Mi
          pods: 110
        Committed:
          cpu: 2500m of 101, used 1235m
          cpu exclusive: 2 of 100
          memory: 2Gi of 65436Mi, used 3Gi
          pods: 2 of 110
        Classes:
          blockio/slow: 1 of 4
          blockio/fast: 0, no limit
        Pods:
        NAMESPACE  NAME  CPU   SHARE  CPUS      CLASSES
        shop       web   2     2048   main=4-5  main=blockio/slow
        shop       job   500m  512    -         -
        """)


def test_json_has_the_ledgers_names() -> None:
    code, out, _ = report(ALL, "dfw-0", output="json")
    [found] = json.loads(out)["nodes"]
    assert code == 0
    assert list(found) == ["node", "city", "pressure", "resources", "classes", "pods"]
    assert found["resources"][0] == {
        "resource": "cpu",
        "capacity": "104",
        "reserved": [
            {"for": "system", "amount": "2", "source": "file"},
            {"for": "kube", "amount": "2", "source": "provider gke"},
        ],
        "oversubscription": "1.000",
        "allocatable": "101",
        "enforced": "100",
        "exclusive": {"capacity": "100", "committed": "2"},
        "committed": "2500m",
        "used": "1235m",
    }
    assert {"resource": "pid", "reserved": [{"for": "system", "amount": "3276", "source": "default"}]} in found[
        "resources"
    ]
    assert found["classes"] == [
        {"type": "blockio", "class": "slow", "level": "container", "capacity": 4, "used": 1},
        {"type": "blockio", "class": "fast", "level": "container", "used": 0},
    ]
    assert found["pods"][0] == {
        "namespace": "shop",
        "name": "web",
        "requests": {"cpu": "2", "memory": "1Gi"},
        "share": 2048,
        "cpus": {"main": "4-5"},
        "classes": {"main": {"blockio": "slow"}},
    }


def test_unlistable_parts_are_left_out_and_named() -> None:
    lists = {**ALL, f"{CORE}/pods": FORBIDDEN, f"{METRICS}/nodes": FORBIDDEN}
    code, out, err = report(lists)
    assert (code, out) == (0, shown("""
        NODE   CITY  CPU  RESERVED  OVERSUB  ALLOCATABLE  EXCLUSIVE  COMMITTED  USED  PRESSURE
        dfw-0  DFW   104  4         1.000    101          ?/100      -          -     DiskPressure
        lhr-0  LHR   104  4         1.500    101500m      ?/100      -          -     -
        """))  # fmt: skip
    assert err == shown("""
        warning: pods may not be listed, so the answer leaves them out
        warning: nodes.metrics.k8s.io may not be listed, so the answer leaves them out
        """)
    _, out, _ = report(lists, "dfw-0")
    assert "\nCommitted:\n  unknown\n" in out
    assert "Pods:" not in out
    _, out, _ = report(lists, "dfw-0", output="json")
    [found] = json.loads(out)["nodes"]
    assert "pods" not in found
    assert "committed" not in found["resources"][0]


def test_metrics_that_are_away_are_said_and_a_server_without_them_is_not() -> None:
    _, _, err = report({**ALL, f"{METRICS}/nodes": (503, "ServiceUnavailable")})
    assert err == "warning: nodes.metrics.k8s.io cannot be listed (no), so the answer leaves them out\n"
    _, out, err = report({path: found for path, found in ALL.items() if path != f"{METRICS}/nodes"})
    assert err == ""
    assert out.splitlines()[1].split()[-2:] == ["-", "DiskPressure"]


def test_a_nodes_city_is_that_of_its_location() -> None:
    far = node("a", city="")
    far["metadata"]["labels"] = {"topology.datum.net/location": "one"}
    places = [{"metadata": {"name": "one"}, "spec": {"topology": {"topology.datum.net/city-code": "SEA"}}}]
    _, out, _ = report({f"{CORE}/nodes": [far], f"{CORE}/pods": [], LOCATIONS: places})
    assert out.splitlines()[1].split()[:2] == ["a", "SEA"]
    _, out, _ = report({f"{CORE}/nodes": [far], f"{CORE}/pods": []})
    assert out.splitlines()[1].split()[:2] == ["a", "-"]


def test_a_node_that_is_not_there_and_nodes_that_nobody_may_see() -> None:
    code, out, err = report(ALL, "dfw-0", "nobody")
    assert (code, err) == (1, "error: no\n")
    assert out.startswith("Name: dfw-0\n")
    with pytest.raises(Forbidden):
        report({**ALL, f"{CORE}/nodes": FORBIDDEN})


def test_a_node_that_no_agent_has_filled() -> None:
    code, out, _ = report({f"{CORE}/nodes": [{"metadata": {"name": "new"}}], f"{CORE}/pods": []})
    assert code == 0
    assert out.splitlines()[1].split() == ["new", *"---------"]


def test_a_class_that_is_not_in_effect_has_no_name() -> None:
    asks = pod("web", "dfw-0", "1", classes={"blockio": "slow"})
    asks["status"]["containerStatuses"][0]["resources"]["classes"] = {"blockio": ""}
    _, out, _ = report({**ALL, f"{CORE}/pods": [asks]}, "dfw-0")
    assert "main=blockio/(not in effect)" in out


def test_no_node_talks_to_the_terminal_of_whoever_asks() -> None:
    """An attacker with a node's identity may write its texts; they stay on their line and move no cursor."""
    evil = "file\x1b[2J\n  cpu:  0  system  honest"
    reservation = {"resource": "cpu\r", "for": evil, "amount": "2", "source": evil}
    bad = node("dfw-0", reservations=[reservation], conditions=[{"type": evil, "status": "True"}])
    asks = pod(
        "web", "dfw-0", "1", annotations={"node.tarmac/classes": json.dumps({"containers": {evil: {evil: evil}}})}
    )
    for names in ((), ("dfw-0",)):
        _, out, _ = report({**ALL, f"{CORE}/nodes": [bad], f"{CORE}/pods": [asks]}, *names)
        assert [letter for letter in out.replace("\n", "") if not letter.isprintable()] == []
        assert not any(line.startswith("  cpu:  0  system") for line in out.splitlines())


def test_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    options = parser().parse_args(["node", "report", "a", "b", "-o", "json"])
    assert (options.names, options.output) == (["a", "b"], "json")
    for words in (["node"], ["node", "report", "-o", "yaml"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert main(["node", "report", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: ")


def test_on_a_planet_every_node_and_what_runs_on_it_is_there() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"), replicas=2)
        await planet.ready(4)
        out, err = io.StringIO(), io.StringIO()
        assert await node_report(planet.user, [], Console(out, err), "json") == 0
        nodes = json.loads(out.getvalue())["nodes"]
        assert {each["city"] for each in nodes if each["pods"]} == {"DFW", "LHR"}
        assert sum(len(each["pods"]) for each in nodes) == 4
        with pytest.raises(Forbidden):
            await node_report(planet.world.reliable(User("nobody")), [], Console(out, err), "text")

    play(story)
