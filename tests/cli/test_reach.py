"""`tarmac why instance/A --reach B:443` on a planet, on our server and on one that does not know it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Forbidden, NotFound
from tarmac.apps.commands import parser
from tarmac.cli.verbs.objectnames import BadObject
from tarmac.cli.verbs.reach import asked, reach
from tarmac.client.client import Client
from tarmac.client.targets.target import dynamic
from tarmac.server.security.users import User
from tests.cli.test_verbs_on_a_planet import Desk
from tests.controllers.planet import Planet, play

POLICIES = dynamic("networking.datumapis.com/v1alpha", "networkpolicies", "NetworkPolicy")
POLICY: JsonObject = {
    "apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkPolicy",
    "metadata": {"name": "closed", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "web"}}},
}  # fmt: skip
INSTANCES = "/apis/compute.datumapis.com/v1alpha/namespaces/default/instances"


async def desk(planet: Planet) -> tuple[Desk, list[str]]:
    planet.start()
    await planet.apply(cities=("DFW", "LHR"), replicas=1)
    await planet.ready(2)
    return Desk(planet), sorted(each["metadata"]["name"] for each in await planet.all(planet.pods))


async def ask(one: Desk, client: Client, *words: str) -> int:
    one.out.truncate(0)
    one.out.seek(0)
    return await reach(client, "default", parser().parse_args(["why", *words]), one.console)


def test_both_kinds_of_servers_give_the_same_answer_and_exit_code() -> None:
    async def story(planet: Planet) -> None:
        one, (dfw, lhr) = await desk(planet)
        policies = planet.user.resource(POLICIES)
        for code, answer in ((0, "Yes"), (3, "No")):
            shown: list[Any] = []
            for client in (one.client, one.elsewhere):
                assert (
                    await ask(one, client, f"instance/{dfw}", "--reach", f"{lhr}:443", "--both", "-o", "json") == code
                )
                shown.append(json.loads(one.out.getvalue()))
            assert shown[0] == shown[1]
            assert (shown[0]["answer"], shown[0]["reverse"]["answer"]) == (answer, answer)
            assert shown[0]["from"] == {
                "apiVersion": "compute.datumapis.com/v1alpha", "kind": "Instance", "namespace": "default", "name": dfw,
            }  # fmt: skip
            if answer == "Yes":
                await policies.create(POLICY)
        assert await ask(one, one.client, dfw, "--reach", f"{lhr}:443") == 3
        text = one.out.getvalue()
        assert "NetworkPolicy default/closed selects" in text.replace("\n", " ").replace("  ", "")
        assert 'Smallest change: Add to NetworkPolicy default/closed spec.ingress: {"from":[' in text
        assert text.endswith("\nThis follows from the rules alone: no packet was sent.\n")

    play(story)


def test_malformed_targets_are_refused_with_the_reason() -> None:
    async def story(planet: Planet) -> None:
        one, (dfw, lhr) = await desk(planet)
        for words, why in (
            ((dfw, "--reach", "example.com:443"), "host name"),
            ((dfw, "--reach", lhr), "TARGET:PORT"),
            ((dfw, "--reach", "fd20::1:443"), "TARGET:PORT"),
            ((dfw, "--both"), "--both belongs to --reach"),
            (("workload/web", "--reach", f"{lhr}:443"), "reaches nothing"),
        ):
            with pytest.raises(BadObject, match=why):
                await ask(one, one.client, *words)
        for client in (one.client, one.elsewhere):
            for words in ((dfw, "--reach", "nobody:443"), ("nobody", "--reach", f"{lhr}:443")):
                with pytest.raises(NotFound, match="nobody"):
                    await ask(one, client, *words)
        with pytest.raises(BadRequest, match="calls no TCP port 'http'"):
            await ask(one, one.client, dfw, "--reach", f"{lhr}:http")
        with pytest.raises(BadRequest, match="host name"):
            await one.client.call("GET", f"{INSTANCES}/{dfw}/why", {"reach": "example.com", "port": "443"})
        with pytest.raises(BadRequest, match="only instances and pods"):
            await one.client.call("GET", "/api/v1/nodes/dfw-0/why", {"reach": lhr, "port": "443"})

    play(story)


def test_targets_as_they_are_written() -> None:
    def read(text: str) -> tuple[str, str, str, str, str]:
        found = asked(text, "shop")
        return found.target.kind, found.target.namespace, found.target.name, found.port, found.protocol

    assert read("db:pg") == ("instance", "shop", "db", "pg", "TCP")
    assert read("bank/db:53/udp") == ("instance", "bank", "db", "53", "UDP")
    assert read("service/bank/db.v1:80") == ("service", "bank", "db.v1", "80", "TCP")
    assert read("[fd20:0::5]:80") == ("address", "", "fd20::5", "80", "TCP")


def test_rights() -> None:
    async def story(planet: Planet) -> None:
        _, (dfw, lhr) = await desk(planet)
        await planet.user.resource(POLICIES).create(POLICY)
        pod = (await planet.all(planet.pods))[1]
        address = next(each["ip"] for each in pod["status"]["podIPs"])
        await _grant(planet, "asker", ["instances/why"], "compute.datumapis.com")
        client = planet.world.reliable(User("asker", groups=("system:authenticated",)))
        query = {"reach": lhr, "port": "443"}
        with pytest.raises(Forbidden, match='cannot get resource "instances"'):
            await client.call("GET", f"{INSTANCES}/{dfw}/why", query)
        with pytest.raises(Forbidden, match="you may not get pods"):
            await client.call("GET", f"{INSTANCES}/{dfw}/why", {**query, "reach": address})
        await _grant(planet, "asker", ["instances"], "compute.datumapis.com")
        found = json.loads((await client.call("GET", f"{INSTANCES}/{dfw}/why", query)).body)
        assert (found["kind"], found["answer"]) == ("Reachability", "No")
        assert "a policy of default selects" in found["sentence"]
        assert "closed" not in json.dumps(found)
        await _grant(planet, "asker", ["networkpolicies"], "networking.datumapis.com")
        found = json.loads((await client.call("GET", f"{INSTANCES}/{dfw}/why", query)).body)
        assert "NetworkPolicy default/closed selects" in found["sentence"]

    play(story)


def test_an_address_of_another_namespace_looks_like_one_that_no_object_has() -> None:
    async def story(planet: Planet) -> None:
        _, (dfw, _) = await desk(planet)
        await _grant(planet, "asker", ["instances/why"], "compute.datumapis.com")
        client = planet.world.reliable(User("asker", groups=("system:authenticated",)))
        shop: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await planet.user.call("POST", "/api/v1/namespaces", body=json.dumps(shop).encode())
        spec = {"clusterIP": "10.96.0.77", "ports": [{"port": 443}]}
        service: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
        await planet.user.call("POST", "/api/v1/namespaces/shop/services", body=json.dumps(service).encode())
        told: list[str] = []
        for address in ("10.96.0.77", "10.96.0.78"):
            answer = await client.call("GET", f"{INSTANCES}/{dfw}/why", {"reach": address, "port": "443"})
            told.append(answer.body.decode().replace(address, "ADDRESS"))
        assert told[0] == told[1]
        assert "has ADDRESS" in told[0]

    play(story)


async def _grant(planet: Planet, user: str, resources: list[str], group: str) -> None:
    name = resources[0].replace("/", "-")
    meta = {"name": name, "namespace": "default"}
    rbac, role = "rbac.authorization.k8s.io", {"kind": "Role", "metadata": meta}
    rules = [{"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]}]
    binding = {
        "kind": "RoleBinding", "metadata": meta, "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "name": user, "apiGroup": rbac}],
    }  # fmt: skip
    for plural, obj in (("roles", {**role, "rules": rules}), ("rolebindings", binding)):
        body = json.dumps({"apiVersion": f"{rbac}/v1", **obj}).encode()
        await planet.user.call("POST", f"/apis/{rbac}/v1/namespaces/default/{plural}", body=body)
    await planet.wait(1)
