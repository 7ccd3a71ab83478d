"""A plan of a file sees the other objects in it, on the server and in the command, and names each city once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest
from tarmac.cli.verbs.plan import plan
from tarmac.client.client import Client
from tarmac.client.targets.typed import WORKLOADS
from tests.cli.test_verbs_on_a_planet import Desk, settled
from tests.controllers.planet import Planet, play, workload

NETWORK: JsonObject = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "Network",
    "metadata": {"name": "lan"},
    "spec": {"ipam": {"mode": "Auto"}},
}
COUNT = "count/instances.compute.datumapis.com"
LAN = [{"network": {"name": "lan"}}]


def attached(**more: Any) -> JsonObject:
    obj = workload(**more)
    obj["spec"]["template"]["spec"]["networkInterfaces"] = LAN
    return obj


def quota(most: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {COUNT: most}},
    }


class File:
    """A file, and the user who plans it: with a server that plans, and with one that does not know plans."""

    def __init__(self, desk: Desk, path: Path, *objects: JsonObject) -> None:
        self.desk, self.path = desk, path
        path.write_text(yaml.safe_dump_all(json.loads(json.dumps(objects))))

    async def plan(self) -> tuple[int, JsonObject]:
        answers = [await self._plan(each) for each in (self.desk.client, self.desk.elsewhere)]
        assert answers[0] == answers[1]
        return answers[0]

    async def text(self) -> str:
        self._forget()
        await plan(self.desk.client, "default", str(self.path), [], self.desk.console, "text")
        return self.desk.out.getvalue()

    @property
    def warnings(self) -> str:
        return self.desk.err.getvalue()

    async def _plan(self, client: Client) -> tuple[int, JsonObject]:
        self._forget()
        code = await plan(client, "default", str(self.path), [], self.desk.console, "json")
        return code, json.loads(self.desk.out.getvalue())

    def _forget(self) -> None:
        for stream in (self.desk.out, self.desk.err):
            stream.seek(0)
            stream.truncate()


def reasons(found: JsonObject) -> set[str]:
    return {each["reason"] for city in found["cities"] for each in city["refused"]}


def test_a_network_of_the_same_file_is_there(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        code, found = await File(desk, tmp_path / "without", attached()).plan()
        assert (code, reasons(found)) == (2, {"NetworkNotFound"})
        file = File(desk, tmp_path / "with", attached(), NETWORK)
        code, found = await file.plan()
        assert (code, reasons(found), file.warnings) == (0, set(), "")
        assert "lan" not in {each["metadata"]["name"] for each in await planet.all(planet.networks)}, (
            "no object is created"
        )

    play(story)


def test_a_quota_and_what_plans_do_not_look_at(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"a": "b"}}
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 1}
        file = File(desk, tmp_path / "file", quota("1"), data, account, urgent, workload(replicas=2))
        code, found = await file.plan()
        assert (code, reasons(found), file.warnings) == (2, {"QuotaExhausted"}, "")
        file = File(desk, tmp_path / "file", quota("2"), workload(replicas=2))
        assert (await file.plan())[0] == 0

    play(story)


def test_a_namespace_and_a_city_of_the_same_file(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        inside = [{**each, "metadata": {**each["metadata"], "namespace": "shop"}} for each in (NETWORK, attached())]
        assert (await File(desk, tmp_path / "shop", namespace, *inside).plan())[0] == 0
        city = {"topology.datum.net/city-code": "OSL"}
        place = {
            "apiVersion": "networking.datumapis.com/v1alpha",
            "kind": "Location",
            "metadata": {"name": "osl"},
            "spec": {"topology": city, "locationClassName": "datum-managed", "provider": {"simulated": {}}},
        }
        code, found = await File(desk, tmp_path / "osl", place, workload(cities=("OSL",))).plan()
        assert (code, found["accepted"], [each["city"] for each in found["cities"]]) == (2, True, ["OSL"])

    play(story)


def test_rejected_manifests_are_named_and_left_out(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        odd = {**NETWORK, "spec": {"ipam": {"mode": "Odd"}}}
        unknown = {
            "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
            "kind": "StorageVersion",
            "metadata": {"name": "d"},
        }
        file = File(desk, tmp_path / "file", odd, unknown, attached())
        code, found = await file.plan()
        assert (code, reasons(found)) == (2, {"NetworkNotFound"})
        assert "Network lan would be refused: " in file.warnings
        assert "StorageVersion d is of a kind that is not served here" in file.warnings
        file = File(desk, tmp_path / "file", odd, workload())
        assert (await file.plan())[0] == 2, "the server would not accept the whole file"

    play(story)


def test_each_city_is_named_once_whatever_is_refused_there(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        obj = attached(cities=("DFW", "LHR"))
        first = obj["spec"]["placements"][0]
        obj["spec"]["placements"] = [first, {**first, "name": "more"}]
        file = File(desk, tmp_path / "file", obj)
        _, found = await file.plan()
        assert [each["city"] for each in found["cities"]] == ["DFW", "LHR"]
        assert [(len(each["refused"]), each["refused"][0]["instances"]) for each in found["cities"]] == [(1, 4), (1, 4)]
        File(desk, tmp_path / "file", obj, NETWORK, quota("1"))
        told = (await file.text()).split("\n\n")
        named = [line.split()[0] for part in told[1:3] for line in part.splitlines() if line[:1].strip()]
        assert named == ["CITY", "DFW", "LHR"] * 2

    play(story)


@pytest.mark.parametrize(
    ("items", "complaint"),
    [
        ([], "items: must hold the Workload web once, and hold it 0 times"),
        ([workload(), workload()], "items: must hold the Workload web once, and hold it 2 times"),
        ([workload(), 3], "items: must be a list of objects"),
        (None, "items: must be a list of objects"),
        ([workload(), *[NETWORK] * 200], "items: 201 objects are too many to plan with; at most 200"),
        ([workload(), {**NETWORK, "metadata": {}}], "items: a Network has no name"),
    ],
)
def test_a_list_that_is_no_file_is_refused(items: Any, complaint: str) -> None:
    async def story(planet: Planet) -> None:
        body = {"apiVersion": "v1", "kind": "List", "items": items}
        with pytest.raises(BadRequest, match=complaint):
            await planet.user.call("POST", WORKLOADS.path("default", "web", "plan"), {}, json.dumps(body).encode())

    play(story)


def test_workloads_of_one_file_count_together(tmp_path: Path) -> None:
    async def story(planet: Planet) -> None:
        desk = await settled(planet)
        first, second = workload("first", replicas=2), workload("second", replicas=2)
        for room, refused in ((3, {"QuotaExhausted"}), (4, set[str]())):
            code, found = await File(desk, tmp_path / "file", quota(str(room)), first, second).plan()
            answers = {each["workload"]: reasons(each) for each in found["plans"]}
            assert answers == {"default/first": set(), "default/second": refused}, room
            assert code == (2 if refused else 0)

    play(story)
