"""An ExternalService that nothing carries out says so."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.api.submariner.names import API_VERSION
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS, GATEWAYS
from tests.controllers.cities import Cities, play

SERVICES = dynamic(API_VERSION, "externalservices", "ExternalService")


def external(name: str) -> JsonObject:
    spec = {
        "targetIP": "203.0.113.5",
        "sources": [{"service": {"name": "orders"}, "sourceIP": "192.0.2.7"}],
        "ports": [{"port": 5432, "targetPort": 8000}],
    }
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": "ExternalService", "metadata": metadata, "spec": spec}


def test_it_is_not_ready_has_no_address_and_people_are_told_once() -> None:
    async def story(cities: Cities) -> None:
        services = cities.user.resource(SERVICES)
        await services.create(external("bank"))
        await cities.wait(2)
        found = await services.get("bank", "default")
        (ready,) = found["status"]["conditions"]
        assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "False", "NoGateway")
        assert "addresses" not in found["status"]
        await services.patch("bank", {"spec": {"targetIP": "203.0.113.6"}}, "default")
        await cities.wait(2)
        changed = await services.get("bank", "default")
        assert changed["status"]["observedGeneration"] == changed["metadata"]["generation"] == 2
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert [(each["type"], each["involvedObject"]["name"]) for each in events if each["reason"] == "NoGateway"] == [
            ("Warning", "bank")
        ]

    play("externalservice", story)


def test_where_there_is_a_gateway_its_status_is_somebody_elses() -> None:
    async def story(cities: Cities) -> None:
        gateway = {"apiVersion": API_VERSION, "kind": "Gateway", "metadata": {"name": "g", "namespace": "default"}}
        await cities.user.resource(GATEWAYS).create({**gateway, "spec": {}})
        await cities.wait(2)
        await cities.user.resource(SERVICES).create(external("bank"))
        await cities.wait(2)
        assert not (await cities.user.resource(SERVICES).get("bank", "default")).get("status")

    play("externalservice", story)
