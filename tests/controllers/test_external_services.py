"""ExternalServices become rules of nodes and gateways, follow their dependencies, and report missing ones."""

from __future__ import annotations

from random import Random
from typing import Any

from tarmac.api.egress.names import API_VERSION, NAMESPACE
from tarmac.api.egress.nodefacts import NodeFacts, OutsideInterface, write_facts
from tarmac.api.schema import JsonObject
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import EVENTS
from tarmac.client.targets.untyped import SERVICES as CORE_SERVICES
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.test_source_ip_claims import CLAIMS, CLASSES, SERVICES, SOURCE_IPS, address_class, claim, made

FORWARDERS = dynamic(API_VERSION, "forwarders", "Forwarder")
GATEWAYS = dynamic(API_VERSION, "gateways", "Gateway")
ALL = "external,service,network,scheduler,node"
TARGET = "203.0.113.9"


def external(name: str = "db", namespace: str = "default", **spec: Any) -> JsonObject:
    sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "c"}}]
    full = {"targetIP": TARGET, "sources": sources, "ports": [{"port": 5432, "targetPort": 8000}], **spec}
    return made("ExternalService", name, full, namespace)


async def prepare(cities: Cities, *, gateways: tuple[str, ...] = ("dfw-0", "dfw-1"), pods: int = 2) -> None:
    """Create nodes, a class, a claim for 192.0.2.5, and a Service with pods in DFW."""
    for number, node in enumerate(("dfw-0", "dfw-1", "dfw-2", "lhr-0")):
        facts = NodeFacts([OutsideInterface("outside0", [f"192.0.2.{100 + number}/24"])], "kernel", True, f"key-{node}")
        labels = {"submariner.io/gateway": "true"} if node in gateways else {}
        annotations = {"submariner.io/node-facts": write_facts(facts)}
        await cities.nodes.patch(node, {"metadata": {"labels": labels, "annotations": annotations}})
    await cities.user.resource(CLASSES).create(address_class(inbound={"policy": "FromTarget"}))
    await cities.user.resource(CLAIMS).create(claim("c", address="192.0.2.5"))
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    spec = {"selector": {"app": "web"}, "ports": ports}
    metadata = {"name": "web", "namespace": "default"}
    await cities.user.resource(CORE_SERVICES).create(
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    )
    for number in range(pods):
        await cities.pods.create(pod(f"web-{number}", place="dfw", labels={"app": "web"}))
    await cities.wait(15)


async def relays(cities: Cities) -> tuple[list[JsonObject], list[JsonObject]]:
    forwarders = (await cities.user.resource(FORWARDERS).list(NAMESPACE)).items
    return forwarders, (await cities.user.resource(GATEWAYS).list(NAMESPACE)).items


async def acknowledge(cities: Cities, owner: str = "dfw-0", *, shared: bool = True) -> None:
    """Act as the agents: the newest rules are in force, and one gateway carries each address."""
    forwarders, gateways = await relays(cities)
    for each in forwarders:
        status = {"appliedGeneration": each["metadata"]["generation"]}
        await cities.user.resource(FORWARDERS).patch(
            each["metadata"]["name"], {"status": status}, NAMESPACE, subresource="status"
        )
    for each in gateways:
        newest = each["metadata"]["generation"]
        nodes = [{"name": node["name"], "appliedGeneration": newest, "owner": node["name"] == owner, "epoch": 1,
                  "syncedWith": node.get("partner", "") if shared else ""}
                 for node in each["spec"]["candidates"]]  # fmt: skip
        await cities.user.resource(GATEWAYS).patch(
            each["metadata"]["name"], {"status": {"nodes": nodes}}, NAMESPACE, subresource="status"
        )


async def said(cities: Cities, kind: str = "Ready", name: str = "db") -> tuple[str, str]:
    found = condition(await cities.user.resource(SERVICES).get(name, "default"), kind)
    return found.get("status", ""), found.get("reason", "")


def test_l1_it_becomes_rules_for_the_nodes_of_its_pods_and_for_its_address_and_is_ready() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        assert await said(cities) == ("False", "OwnerChanging")
        await acknowledge(cities)
        await cities.wait(4)
        await acknowledge(cities)
        await cities.wait(4)
        forwarders, (gateway,) = await relays(cities)
        on = {each["spec"]["nodeName"] for each in forwarders}
        assert on == set(await cities.nodes_of("web-0", "web-1"))
        rules = [rule for each in forwarders for rule in each["spec"]["egressrules"]]
        assert {(rule["targetport"], rule["destinationip"], rule["destinationport"]) for rule in rules} == {
            (8000, TARGET, 5432)
        }
        assert len({rule["pod"] for rule in rules}) == 2
        assert (gateway["metadata"]["name"], gateway["spec"]["gatewayip"]) == ("192.0.2.5", "192.0.2.5")
        assert sorted(each["name"] for each in gateway["spec"]["candidates"]) == ["dfw-0", "dfw-1"]
        assert len(gateway["spec"]["voters"]) == 3
        assert {rule["sourceip"] for rule in gateway["spec"]["egressrules"]} == {rule["transitip"] for rule in rules}
        senders = {each["name"]: (each["city"], each["publicKey"]) for each in gateway["spec"]["senders"]}
        assert senders == {name: ("DFW", f"key-{name}") for name in on}
        assert await said(cities) == ("True", "RulesInForce")
        found = await cities.user.resource(SERVICES).get("db", "default")
        assert found["status"]["summary"] == {"ports": "8000:5432/TCP", "sources": "1/1", "gateway": "dfw-0"}
        assert found["status"]["addresses"][0].startswith("169.254.")
        owner = (await cities.user.resource(SOURCE_IPS).get("192.0.2.5"))["status"]["owner"]
        assert owner["gateway"] == "dfw-0"
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert "Ready" in {each["reason"] for each in events if each["involvedObject"]["kind"] == "ExternalService"}

    play(ALL, story)


def test_l5_a_gateway_says_whether_all_that_may_carry_it_have_its_newest_rules() -> None:
    async def programmed(cities: Cities) -> tuple[str, str, int, int]:
        _, (gateway,) = await relays(cities)
        found, newest = condition(gateway, "Programmed"), gateway["metadata"]["generation"]
        return found["status"], found["reason"], newest - found["observedGeneration"], newest

    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        *said, _ = await programmed(cities)
        assert said == ["False", "Programming", 0]
        await acknowledge(cities)
        await cities.wait(4)
        await acknowledge(cities)
        await cities.wait(4)
        *said, first = await programmed(cities)
        assert said == ["True", "RulesInForce", 0]
        await cities.user.resource(SERVICES).patch("db", {"spec": {"ports": [{"port": 5433}]}}, "default")
        await cities.wait(4)
        *said, later = await programmed(cities)
        assert later > first
        assert said == ["False", "Programming", 0]
        stuck = {"name": "dfw-1", "appliedGeneration": first, "errors": [{"rule": "db", "message": "no room"}]}
        nodes = [{"name": "dfw-0", "appliedGeneration": later, "owner": True, "epoch": 1}, stuck]
        await cities.user.resource(GATEWAYS).patch(
            "192.0.2.5", {"status": {"nodes": nodes}}, NAMESPACE, subresource="status"
        )
        await cities.wait(4)
        _, (gateway,) = await relays(cities)
        assert condition(gateway, "Programmed")["reason"] == "ProgrammingFailed"
        assert condition(gateway, "Degraded")["message"] == "dfw-1: no room"

    play(ALL, story)


def test_an_address_says_who_keeps_it_from_being_carried_and_from_whom_it_came() -> None:
    async def word(cities: Cities, *nodes: JsonObject) -> JsonObject:
        """Write the gateways' reports; return the status of the address."""
        gateways = cities.user.resource(GATEWAYS)
        await gateways.patch("192.0.2.5", {"status": {"nodes": list(nodes)}}, NAMESPACE, subresource="status")
        await cities.wait(4)
        return (await cities.user.resource(SOURCE_IPS).get("192.0.2.5"))["status"]

    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        stranger = {"rule": "AddressConflict", "message": "192.0.2.5 is in use by 02:00:00:00:00:09"}
        found = await word(cities, {"name": "dfw-0", "errors": [stranger]})
        assert found["phase"] == "Conflict"
        assert await said(cities) == ("False", "AddressConflict")
        first = {"name": "dfw-1", "owner": True, "epoch": 1, "cause": "First", "since": "2026-01-01T00:00:00Z"}
        found = await word(cities, {"name": "dfw-0", "errors": [stranger]}, first)
        assert (found["phase"], found["owner"]["gateway"]) == ("Bound", "dfw-1"), "it heals by itself"
        assert "lastFailover" not in found
        await word(cities, {"name": "dfw-1", "owner": False})  # in between no gateway reports that it carries it
        since = {"since": "2026-01-01T01:00:00Z", "formerOwner": "dfw-1", "cause": "Silent", "gapMilliseconds": 1620}
        found = await word(cities, {"name": "dfw-0", "owner": True, "epoch": 2, **since})
        assert found["lastFailover"] == "2026-01-01T01:00:00Z"
        events = (await cities.user.resource(EVENTS).list("default")).items
        own = [each for each in events if each["involvedObject"]["kind"] == "SourceIP"]
        told = [(each["reason"], each["message"]) for each in sorted(own, key=lambda each: each["firstTimestamp"])]
        assert [reason for reason, _ in told] == ["AddressConflict", "OwnerChanged", "OwnerChanged"]
        assert "02:00:00:00:00:09" in told[0][1]
        assert told[1][1] == "192.0.2.5 has come to dfw-1: first owner."
        assert told[2][1] == (
            "192.0.2.5 has come to dfw-0 from dfw-1: its gateway was not heard of any more, "
            "without an owner for 1620 ms."
        )

    play(ALL, story)


def test_without_nodes_that_take_part_nothing_is_programmed_and_it_says_so() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, gateways=())
        for node in ("dfw-0", "dfw-1", "dfw-2"):
            await cities.nodes.patch(node, {"metadata": {"annotations": {"submariner.io/node-facts": None}}})
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        assert await said(cities) == ("False", "NoGateway")
        assert await said(cities, "SourcesResolved") == ("False", "NodeHasNoDatapath")
        assert (await relays(cities))[0] == []
        first = (await cities.user.resource(SERVICES).get("db", "default"))["status"]["addresses"]
        await cities.user.resource(SERVICES).patch("db", {"spec": {"targetIP": "203.0.113.10"}}, "default")
        await cities.wait(2)
        changed = await cities.user.resource(SERVICES).get("db", "default")
        assert changed["status"]["observedGeneration"] == changed["metadata"]["generation"] == 2
        assert changed["status"]["addresses"] == first, "the dialled address is kept for life"

    play(ALL, story)


def test_l2_pods_that_come_and_go_are_followed_and_transit_addresses_stay() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, pods=1)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        ((before,), _) = await relays(cities)
        await cities.pods.create(pod("web-9", labels={"app": "web"}, nodeName=before["spec"]["nodeName"]))
        await cities.wait(10)
        ((after,), _) = await relays(cities)
        transits = {rule["transitip"] for rule in (*before["spec"]["egressrules"], *after["spec"]["egressrules"])}
        assert (len(after["spec"]["egressrules"]), len(transits)) == (2, 1)
        for name in ("web-0", "web-9"):
            await cities.pods.delete(name, "default", grace=0)
        await cities.wait(10)
        assert (await relays(cities))[0] == [], "no source pods: no Forwarder"
        assert (await said(cities))[0] == "False"

    play(ALL, story)


def test_a_grant_that_is_withdrawn_takes_the_rules_with_it() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await cities.user.resource(dynamic("v1", "namespaces", "Namespace", namespaced=False)).create(namespace)
        await cities.user.resource(CLASSES).patch(
            "partner", {"spec": {"allowedNamespaces": {"names": ["default", "shop"]}}}
        )
        await cities.user.resource(CLAIMS).create(claim("d", "shop", address="192.0.2.6"))
        source = {"service": {"name": "web", "namespace": "default"}, "sourceIPClaim": {"name": "d"}}
        theirs = cities.user.resource(SERVICES)
        await theirs.create(external("theirs", "shop", sources=[source]))
        await cities.wait(3)
        assert condition(await theirs.get("theirs", "shop"), "Ready")["reason"] == "NotGranted"
        told = [each["reason"] for each in (await cities.user.resource(EVENTS).list("shop")).items]
        assert (told.count("SourceRefused"), told.count("NotReady")) == (1, 1)
        grant = {"metadata": {"annotations": {"submariner.io/allowed-from": "shop/theirs"}}}
        await cities.user.resource(CORE_SERVICES).patch("web", grant, "default")
        await cities.wait(4)
        assert (await relays(cities))[0]
        await cities.user.resource(CORE_SERVICES).patch(
            "web", {"metadata": {"annotations": {"submariner.io/allowed-from": None}}}, "default"
        )
        await cities.wait(1)
        forwarders, gateways = await relays(cities)
        assert forwarders == []
        assert [rule for each in gateways for rule in each["spec"].get("egressrules") or ()] == []

    play(ALL, story)


def test_l1_deleted_it_leaves_nothing_and_its_claim_may_go() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        services = cities.user.resource(SERVICES)
        await services.create(external())
        await cities.wait(4)
        await cities.user.resource(CLAIMS).delete("c", "default")
        await cities.wait(2)
        assert (await relays(cities))[0], "the claim waits, traffic continues"
        await services.delete("db", "default")
        await cities.wait(5)
        assert await cities.gone(services, "db", "default")
        assert await cities.gone(cities.user.resource(CLAIMS), "c", "default")
        assert await relays(cities) == ([], [])

    play(ALL, story)


def test_an_invalid_object_affects_no_other_and_short_names_are_per_namespace() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external(targetIP="198.18.0.77"))
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        await cities.user.resource(dynamic("v1", "namespaces", "Namespace", namespaced=False)).create(namespace)
        await cities.wait(2)
        await cities.user.resource(SERVICES).create(external("db", "shop"))
        await cities.wait(3)
        bad = await cities.user.resource(SERVICES).get("db", "shop")
        assert condition(bad, "Ready")["reason"] in ("SourceServiceNotFound", "ClaimNotFound")
        assert condition(bad, "ShortName")["status"] == "True"
        assert await said(cities, "ShortName") == ("True", "RulesInForce")
        assert (await relays(cities))[0]

    play(ALL, story)


def test_a_new_way_is_known_to_the_gateway_before_forwarders_use_it() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.until(lambda: has_gateway(cities), 5)
        assert (await relays(cities))[0] == []
        await cities.wait(3)
        assert (await relays(cities))[0], "after a second also without an answer"

    async def has_gateway(cities: Cities) -> bool:
        return bool((await relays(cities))[1])

    play(ALL, story)


def test_rules_of_a_service_that_went_without_us_are_swept_away() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        services = cities.user.resource(SERVICES)
        await services.create(external())
        await cities.wait(4)
        await cities.stop()
        await services.patch("db", {"metadata": {"finalizers": None}}, "default")
        await services.delete("db", "default")
        assert (await relays(cities))[0]
        cities.start(ALL)
        await cities.wait(4)
        assert await relays(cities) == ([], [])

    play(ALL, story)


def test_an_address_that_waits_for_its_first_user_is_carried_where_that_has_its_pods() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        waiting = {"bindingMode": "WaitForFirstConsumer", "ranges": [{"cidr": "198.51.100.0/28"}]}
        await cities.user.resource(CLASSES).create(address_class("later", **waiting))
        await cities.user.resource(CLAIMS).create(claim("d", className="later"))
        await cities.wait(3)
        found = await cities.user.resource(CLAIMS).get("d", "default")
        assert condition(found, "Bound")["reason"] == "WaitForFirstConsumer"
        source = {"service": {"name": "web"}, "sourceIPClaim": {"name": "d"}}
        await cities.user.resource(SERVICES).create(external("later", sources=[source]))
        await cities.wait(3)
        (name,) = (await cities.user.resource(CLAIMS).get("d", "default"))["status"]["sourceIPNames"]
        assert (await cities.user.resource(SOURCE_IPS).get(name))["spec"]["location"] == "dfw"

    play(ALL, story)


def test_a_cordoned_gateway_is_no_candidate_and_voters_change_step_by_step() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, gateways=("dfw-0", "dfw-1", "dfw-2"))
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        await acknowledge(cities, "dfw-1")
        (_, (before,)) = await relays(cities)
        await cities.nodes.patch("dfw-1", {"spec": {"unschedulable": True}})
        await cities.wait(6)
        (_, (after,)) = await relays(cities)
        assert sorted(each["name"] for each in after["spec"]["candidates"]) == ["dfw-0", "dfw-2"]
        voters = [{each["name"] for each in gateway["spec"]["voters"]} for gateway in (before, after)]
        assert len(voters[0] ^ voters[1]) <= 1

    play(ALL, story)


def test_a_cordoned_gateway_that_never_shares_its_connections_loses_the_address_after_a_minute() -> None:
    async def story(cities: Cities) -> None:
        async def line() -> list[str]:
            (_, (gateway,)) = await relays(cities)
            return sorted(each["name"] for each in gateway["spec"]["candidates"])

        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        await acknowledge(cities, "dfw-1", shared=False)
        await cities.nodes.patch("dfw-1", {"spec": {"unschedulable": True}})
        await cities.wait(50)
        assert await line() == ["dfw-0", "dfw-1"]
        await cities.wait(15)
        assert await line() == ["dfw-0"]
        events = (await cities.user.resource(EVENTS).list()).items
        (told,) = [each["message"] for each in events if each["reason"] == "HandoverTimeout"]
        assert told == (
            "192.0.2.5 moves without them: dfw-1 is cordoned and has not shared its connections within 60 s"
        )

    play(ALL, story)


def test_controllers_that_die_at_any_moment_leave_rules_that_agree_and_numbers_that_are_unique() -> None:
    async def story(cities: Cities) -> None:
        dice = Random(5)
        await prepare(cities)
        await cities.user.resource(CLASSES).patch("partner", {"spec": {"sharing": "Namespace"}})
        services = cities.user.resource(SERVICES)
        for number in range(6):
            await services.create(external(f"db-{number}", targetIP=f"203.0.113.{10 + number}"))
            await cities.wait(dice.uniform(0.0, 0.1))
            await cities.stop()
            cities.start(ALL)
        await services.delete("db-0", "default")
        for _ in range(12):
            await cities.wait(dice.uniform(0.0, 1.3))
            await cities.stop()
            cities.start(ALL)
        await cities.wait(15)
        forwarders, (gateway,) = await relays(cities)
        names = {each["spec"]["externalService"]["name"] for each in forwarders}
        assert names == {f"db-{number}" for number in range(1, 6)}
        transits = [{rule["transitip"] for rule in each["spec"]["egressrules"]} for each in forwarders]
        assert sum(map(len, transits)) == len(set().union(*transits)), "each stands for one path"
        assert {rule["sourceip"] for rule in gateway["spec"]["egressrules"]} == set().union(*transits)
        dialled = {each["spec"]["serviceip"] for each in forwarders}
        assert len(dialled) == 5

    play(ALL, story)


def test_a_class_that_no_longer_allows_the_namespace_closes_everything_at_once_and_keeps_the_address() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        assert (await relays(cities))[0]
        await cities.user.resource(CLASSES).patch("partner", {"spec": {"allowedNamespaces": {"names": []}}})
        await cities.wait(2.5)
        assert await relays(cities) == ([], [])
        assert await said(cities, "AddressesBound") == ("False", "NotAuthorized")
        assert (await cities.user.resource(SOURCE_IPS).get("192.0.2.5"))["status"]["phase"] == "Bound"

    play(ALL, story)


def test_services_that_share_an_address_come_to_rest() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        await cities.user.resource(CLASSES).patch("partner", {"spec": {"sharing": "Namespace"}})
        for number in range(3):
            await cities.user.resource(SERVICES).create(external(f"db-{number}", targetIP=f"203.0.113.{10 + number}"))
        await cities.wait(5)
        (_, (before,)) = await relays(cities)
        await cities.wait(30)
        (_, (after,)) = await relays(cities)
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    play(ALL, story)


def test_gateways_hand_on_what_the_nodes_of_its_pods_say_and_follow_it() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities, pods=1)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        _, (gateway,) = await relays(cities)
        (sender,) = gateway["spec"]["senders"]
        node = await cities.nodes.get(sender["name"])
        (address,) = [each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP"]
        assert sender == {
            "name": sender["name"],
            "address": address,
            "city": "DFW",
            "publicKey": f"key-{sender['name']}",
        }
        facts = write_facts(NodeFacts(encryption="kernel", public_key="another"))
        await cities.nodes.patch(sender["name"], {"metadata": {"annotations": {"submariner.io/node-facts": facts}}})
        await cities.wait(4)
        _, (gateway,) = await relays(cities)
        assert gateway["spec"]["senders"] == [{**sender, "publicKey": "another"}]
        await cities.pods.delete("web-0", "default")
        await cities.wait(40)
        _, gateways = await relays(cities)
        assert [each["spec"].get("senders", []) for each in gateways] in ([], [[]])

    play(ALL, story)


def test_a_port_goes_to_the_next_one_that_wants_it_when_the_older_one_is_deleted() -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        ports = [{"name": "http", "port": 80, "targetPort": 8080}]
        other: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "api", "namespace": "default"}}
        await cities.user.resource(CORE_SERVICES).create(
            {**other, "spec": {"selector": {"app": "web"}, "ports": ports}}
        )
        services = cities.user.resource(SERVICES)
        await services.create(external("first"))
        await cities.wait(4)
        sources = [{"service": {"name": "api"}, "sourceIPClaim": {"name": "c"}}]
        await services.create(external("second", sources=sources))
        await cities.wait(4)
        assert (await inbound(cities, "first"), await inbound(cities, "second")) == (2, 0)
        await services.delete("first", "default")
        await cities.wait(4)
        assert await inbound(cities, "second") == 2

    play(ALL, story)


async def inbound(cities: Cities, name: str) -> int:
    """Return rules of an ExternalService that lead the target to its pods."""
    forwarders, _ = await relays(cities)
    mine = [each for each in forwarders if each["spec"]["externalService"]["name"] == name]
    return sum(len(each["spec"].get("ingressrules") or []) for each in mine)
