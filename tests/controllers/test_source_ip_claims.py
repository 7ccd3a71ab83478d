"""Claims get addresses and keep them; released addresses are quarantined; no crash binds an address twice."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tarmac.api.egress.names import API_VERSION
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, NotFound
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS, NAMESPACES
from tarmac.controllers.egress.binder import SourceIPBinder
from tests.controllers.cities import Cities, condition, play

CLASSES = dynamic(API_VERSION, "sourceipclasses", "SourceIPClass", namespaced=False)
CLAIMS = dynamic(API_VERSION, "sourceipclaims", "SourceIPClaim")
SOURCE_IPS = dynamic(API_VERSION, "sourceips", "SourceIP", namespaced=False)
SERVICES = dynamic(API_VERSION, "externalservices", "ExternalService")


def made(kind: str, name: str, spec: JsonObject, namespace: str = "") -> JsonObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def address_class(name: str = "partner", **spec: Any) -> JsonObject:
    full = {"ranges": [{"cidr": "192.0.2.0/28"}], "allowedNamespaces": {"names": ["default"]}, "holdDown": "1m", **spec}
    return made("SourceIPClass", name, full)


def claim(name: str, namespace: str = "default", **spec: Any) -> JsonObject:
    return made("SourceIPClaim", name, {"className": "partner", **spec}, namespace)


def using(name: str, claimed: str) -> JsonObject:
    sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": claimed}}]
    return made(
        "ExternalService", name, {"targetIP": "203.0.113.9", "sources": sources, "ports": [{"port": 80}]}, "default"
    )


async def addresses(cities: Cities, name: str) -> list[str]:
    found = await cities.user.resource(CLAIMS).get(name, "default")
    return (found.get("status") or {}).get("addresses") or []


async def reason(cities: Cities, name: str, kind: str = "Bound") -> tuple[str, str]:
    found = condition(await cities.user.resource(CLAIMS).get(name, "default"), kind)
    return found.get("status", ""), found.get("reason", "")


def test_a_claim_gets_the_address_it_asks_for_and_people_see_it() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(CLASSES).create(address_class())
        await cities.user.resource(CLAIMS).create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        assert await addresses(cities, "c") == ["192.0.2.5"]
        assert await reason(cities, "c") == ("True", "AddressBound")
        found = await cities.user.resource(SOURCE_IPS).get("192.0.2.5")
        assert (found["status"]["phase"], found["status"]["id"]) == ("Bound", 1)
        offered = await cities.user.resource(CLASSES).get("partner")
        assert offered["status"]["summary"] == {"bound": 1, "available": 13}
        assert condition(offered, "Ready")["reason"] == "NoGateway"
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert [each["message"] for each in events if each["reason"] == "Bound"] == ["It holds 192.0.2.5."]
        shown = {name: [(dict(labels), value) for _, labels, value in samples]
                 for name, _, _, samples in cities.metrics.families()}  # fmt: skip
        assert shown["tarmac_sourceip_addresses"] == [({"class": "partner", "family": "IPv4", "state": "Bound"}, 1)]
        claimed = {"class": "partner", "phase": "Bound", "reason": "AddressBound"}
        assert shown["tarmac_sourceip_claims"] == [(claimed, 1)]
        assert ({}, 1) in shown["tarmac_sourceip_bind_seconds"]
        assert shown["tarmac_externalservices"] == []

    play("external", story)


def test_a_claim_binds_once_its_obstacles_are_removed() -> None:
    async def story(cities: Cities) -> None:
        claims, classes = cities.user.resource(CLAIMS), cities.user.resource(CLASSES)
        await claims.create(claim("c"))
        await cities.wait(2)
        assert await reason(cities, "c") == ("False", "ClassNotFound")
        await classes.create(address_class(allowedNamespaces={"names": []}))
        await cities.wait(2)
        assert await reason(cities, "c") == ("False", "NotAuthorized")
        await classes.patch("partner", {"spec": {"allowedNamespaces": {"names": ["default"]}, "quota": {"total": 0}}})
        await cities.wait(2)
        assert await reason(cities, "c") == ("False", "QuotaExceeded")
        await classes.patch("partner", {"spec": {"quota": None}})
        await cities.wait(2)
        assert await reason(cities, "c") == ("True", "AddressBound")
        await classes.patch("partner", {"spec": {"allowedNamespaces": {"names": []}}})
        await cities.wait(2)
        assert await reason(cities, "c", "Authorized") == ("False", "NotAuthorized")
        assert await reason(cities, "c") == ("True", "AddressBound"), "the address stays held"
        events = (await cities.user.resource(EVENTS).list("default")).items
        told = [each["reason"] for each in events if each["involvedObject"]["kind"] == "SourceIPClaim"]
        assert (told.count("BindFailed"), told.count("Bound")) == (3, 1), "each reason once"

    play("external", story)


def test_many_claims_never_share_and_the_oldest_are_served_first() -> None:
    async def story(cities: Cities) -> None:
        claims = cities.user.resource(CLAIMS)
        await cities.user.resource(CLASSES).create(address_class(quota={"perNamespace": 5}))
        for number in range(8):
            await claims.create(claim(f"c{number}"))
            await cities.wait(1.1 if number < 5 else 0)
        await cities.wait(3)
        held = [await addresses(cities, f"c{number}") for number in range(8)]
        assert [len(each) for each in held] == [1, 1, 1, 1, 1, 0, 0, 0]
        assert len({each[0] for each in held[:5]}) == 5
        await claims.delete("c0", "default")
        await cities.wait(3)
        assert [len(await addresses(cities, f"c{number}")) for number in (5, 6, 7)] == [1, 0, 0]

    play("external", story)


def test_an_address_rests_after_its_claim_and_goes_back_only_to_its_namespace() -> None:
    async def story(cities: Cities) -> None:
        claims, source_ips = cities.user.resource(CLAIMS), cities.user.resource(SOURCE_IPS)
        await cities.user.resource(CLASSES).create(address_class())
        await claims.create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        await claims.delete("c", "default")
        await cities.wait(3)
        found = await source_ips.get("192.0.2.5")
        assert (found["status"]["phase"], found["status"]["lastClaim"]["name"]) == ("Released", "c")
        await cities.wait(10)
        assert (await source_ips.get("192.0.2.5"))["status"]["phase"] == "Quarantined"
        await claims.create(claim("again", address="192.0.2.5"))
        await cities.wait(3)
        assert await addresses(cities, "again") == ["192.0.2.5"]
        assert (await source_ips.get("192.0.2.5"))["status"]["phase"] == "Bound"
        await claims.delete("again", "default")
        await cities.wait(80)
        assert await cities.gone(source_ips, "192.0.2.5"), "free after its rest"
        events = (await cities.user.resource(EVENTS).list("default")).items
        told = {(each["involvedObject"]["kind"], each["reason"]) for each in events}
        assert {("SourceIPClaim", "Released"), ("SourceIP", "Quarantined"), ("SourceIP", "Freed")} <= told

    play("external", story)


async def _make(cities: Cities, namespace: str) -> None:
    await cities.user.resource(NAMESPACES).create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    )


def test_a_resting_address_does_not_go_to_a_namespace_made_again() -> None:
    async def story(cities: Cities) -> None:
        claims, source_ips = cities.user.resource(CLAIMS), cities.user.resource(SOURCE_IPS)
        await cities.user.resource(CLASSES).create(address_class(allowedNamespaces={"names": ["shop"]}))
        await _make(cities, "shop")
        await claims.create(claim("c", "shop", address="192.0.2.5"))
        await cities.wait(3)
        uid = (await cities.user.resource(NAMESPACES).get("shop"))["metadata"]["uid"]
        assert (await source_ips.get("192.0.2.5"))["spec"]["claimRef"]["namespaceUID"] == uid
        await cities.user.resource(NAMESPACES).delete("shop")
        await cities.wait(20)
        assert (await source_ips.get("192.0.2.5"))["status"]["lastClaim"]["namespaceUID"] == uid
        await _make(cities, "shop")
        await claims.create(claim("c", "shop", address="192.0.2.5"))
        await cities.wait(3)
        found = await claims.get("c", "shop")
        assert condition(found, "Bound")["reason"] == "AddressQuarantined"

    play("external,namespace", story)


def test_an_address_bound_by_an_earlier_version_gets_the_uid_of_its_namespace() -> None:
    async def story(cities: Cities) -> None:
        claims, source_ips = cities.user.resource(CLAIMS), cities.user.resource(SOURCE_IPS)
        await cities.user.resource(CLASSES).create(address_class())
        await claims.create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        await source_ips.patch("192.0.2.5", {"spec": {"claimRef": {"namespaceUID": None}}})
        await cities.wait(1)
        assert (await source_ips.get("192.0.2.5"))["spec"]["claimRef"]["namespaceUID"]

    play("external", story)


def test_a_claim_in_use_an_address_in_use_and_a_class_in_use_stay() -> None:
    async def story(cities: Cities) -> None:
        claims, source_ips, classes = (cities.user.resource(each) for each in (CLAIMS, SOURCE_IPS, CLASSES))
        await classes.create(address_class())
        await claims.create(claim("c", address="192.0.2.5"))
        await cities.user.resource(SERVICES).create(using("db", "c"))
        await cities.wait(3)
        assert await reason(cities, "c", "InUse") == ("True", "AddressBound")
        await claims.delete("c", "default")
        await source_ips.delete("192.0.2.5")
        await classes.delete("partner")
        await cities.wait(5)
        assert await addresses(cities, "c") == ["192.0.2.5"]
        assert (await source_ips.get("192.0.2.5"))["status"]["phase"] == "Bound"
        await cities.user.resource(SERVICES).delete("db", "default")
        await cities.wait(90)
        assert await cities.gone(claims, "c", "default")
        assert await cities.gone(source_ips, "192.0.2.5")
        assert await cities.gone(classes, "partner")

    play("external", story)


def test_a_crash_between_the_lock_and_the_claims_word_is_completed_by_the_next() -> None:
    async def story(cities: Cities) -> None:
        await cities.stop()
        claims, source_ips = cities.user.resource(CLAIMS), cities.user.resource(SOURCE_IPS)
        await cities.user.resource(CLASSES).create(address_class())
        mine = await claims.create(claim("c"))
        reference = {"namespace": "default", "name": "c", "uid": mine["metadata"]["uid"]}
        spec = {"address": "192.0.2.9", "className": "partner", "claimRef": reference}
        await source_ips.create(made("SourceIP", "192.0.2.9", spec))
        dead = {"namespace": "default", "name": "c", "uid": "of-its-predecessor"}
        await source_ips.create(made("SourceIP", "192.0.2.4", {**spec, "address": "192.0.2.4", "claimRef": dead}))
        cities.start("external")
        await cities.wait(3)
        assert await addresses(cities, "c") == ["192.0.2.9"], "no second one"
        assert (await source_ips.get("192.0.2.4"))["status"]["phase"] == "Released", "a missing uid holds no address"
        assert len((await source_ips.list()).items) == 2

    play("external", story)


def test_a_claim_whose_address_is_gone_is_lost_and_gets_no_other() -> None:
    async def story(cities: Cities) -> None:
        source_ips = cities.user.resource(SOURCE_IPS)
        await cities.user.resource(CLASSES).create(address_class())
        await cities.user.resource(CLAIMS).create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        await cities.stop()
        await source_ips.patch("192.0.2.5", {"metadata": {"finalizers": None}})
        await source_ips.delete("192.0.2.5")
        cities.start("external")
        await cities.wait(3)
        found = await cities.user.resource(CLAIMS).get("c", "default")
        assert (found["status"]["phase"], condition(found, "Bound")["reason"]) == ("Lost", "AddressLost")
        assert await cities.gone(source_ips, "192.0.2.5")

    play("external", story)


def test_two_processes_at_once_hold_nothing_twice() -> None:
    async def story(cities: Cities) -> None:
        first = cities._manager
        cities.start("external")
        second, cities._manager = cities._manager, first
        await cities.user.resource(CLASSES).create(address_class(ranges=[{"cidr": "192.0.2.0/27"}]))
        for number in range(20):
            await cities.user.resource(CLAIMS).create(claim(f"c{number}"))
        await cities.wait(20)
        held = [await addresses(cities, f"c{number}") for number in range(20)]
        assert all(len(each) == 1 for each in held)
        assert len({each[0] for each in held}) == 20
        assert len((await cities.user.resource(SOURCE_IPS).list()).items) == 20
        assert second is not None
        second.cancel()

    play("external", story)


def test_an_address_set_aside_waits_for_its_claim() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(CLASSES).create(address_class(autoAssign=False))
        spec = {"address": "192.0.2.5", "className": "partner", "claimRef": {"namespace": "default", "name": "c"}}
        await cities.user.resource(SOURCE_IPS).create(made("SourceIP", "192.0.2.5", spec))
        await cities.user.resource(CLAIMS).create(claim("other"))
        await cities.wait(3)
        assert await reason(cities, "other") == ("False", "PoolExhausted")
        await cities.user.resource(CLAIMS).create(claim("c"))
        await cities.wait(3)
        assert await addresses(cities, "c") == ["192.0.2.5"]
        try:
            await cities.user.resource(SOURCE_IPS).get("192.0.2.6")
        except NotFound:
            return
        raise AssertionError("an address was made for nobody")

    play("external", story)


def test_controllers_that_die_at_any_moment_bind_every_claim_once() -> None:
    async def story(cities: Cities) -> None:
        dice = Random(7)
        await cities.user.resource(CLASSES).create(
            address_class(ranges=[{"cidr": "192.0.2.0/27"}, {"cidr": "2001:db8::/120"}])
        )
        for number in range(12):
            await cities.user.resource(CLAIMS).create(claim(f"c{number}", families=["IPv4", "IPv6"]))
            await cities.stop()
            cities.start("external")
            await cities.wait(dice.uniform(0.0, 0.03))
        for _ in range(20):
            await cities.stop()
            cities.start("external")
            await cities.wait(dice.uniform(0.0, 0.05))
        await cities.wait(10)
        held = [address for number in range(12) for address in await addresses(cities, f"c{number}")]
        assert len(held) == len(set(held)) == 24
        found = (await cities.user.resource(SOURCE_IPS).list()).items
        assert sorted(each["spec"]["address"] for each in found) == sorted(held)
        ids = [each["status"]["id"] for each in found]
        assert len(set(ids)) == 24

    play("external", story)


def test_an_address_that_a_bound_claim_does_not_name_is_let_go() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(CLASSES).create(address_class())
        mine = await cities.user.resource(CLAIMS).create(claim("c", address="192.0.2.5"))
        await cities.wait(3)
        reference = {"namespace": "default", "name": "c", "uid": mine["metadata"]["uid"]}
        spec = {"address": "192.0.2.9", "className": "partner", "claimRef": reference}
        await cities.user.resource(SOURCE_IPS).create(made("SourceIP", "192.0.2.9", spec))
        await cities.wait(3)
        assert await addresses(cities, "c") == ["192.0.2.5"]
        assert (await cities.user.resource(SOURCE_IPS).get("192.0.2.9"))["status"]["phase"] == "Released"

    play("external", story)


def test_a_claim_that_the_server_refuses_keeps_no_other_waiting() -> None:
    take = SourceIPBinder._take

    async def refused(self: SourceIPBinder, mine: SourceIPClaim, *rest: Any) -> SourceIP:
        if mine.metadata.name == "bad":
            raise Forbidden("not this one")
        return await take(self, mine, *rest)

    async def story(cities: Cities) -> None:
        await cities.user.resource(CLASSES).create(address_class())
        await cities.user.resource(CLAIMS).create(claim("bad"))
        await cities.wait(1.1)
        await cities.user.resource(CLAIMS).create(claim("good"))
        await cities.wait(3)
        assert await addresses(cities, "bad") == []
        assert len(await addresses(cities, "good")) == 1

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(SourceIPBinder, "_take", refused)
        play("external", story)
