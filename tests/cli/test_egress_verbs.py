"""`why` and `plan` of external services, by the server and by the command itself, with equal results."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation
from tarmac.api.egress.plans import ExternalPlan
from tarmac.api.schema import JsonObject
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import parse_object
from tarmac.cli.verbs.plan import plan, planned_external
from tarmac.cli.verbs.why import explain
from tarmac.client.client import Client
from tarmac.client.targets.untyped import NAMESPACES
from tarmac.client.targets.untyped import SERVICES as CORE_SERVICES
from tarmac.server.security.users import User
from tests.cli.test_verbs_on_a_planet import WithoutSubresources
from tests.controllers.cities import Cities, play
from tests.controllers.test_external_services import ALL, acknowledge, external, prepare
from tests.controllers.test_source_ip_claims import CLAIMS, SERVICES, claim


class Desk:
    """A user with a command line."""

    def __init__(self, cities: Cities) -> None:
        self.cities = cities
        elsewhere = Client(WithoutSubresources(cities.user.transport), cities.user.clock)
        self.servers = (cities.user, elsewhere)
        self.out, self.err = io.StringIO(), io.StringIO()
        self.console = Console(self.out, self.err)

    async def why(self, words: str) -> Explanation:
        target, name = parse_object([words])
        answers = [await explain(each, target, "default", name, self.console) for each in self.servers]
        assert answers[0] == answers[1]
        return answers[0]

    async def plan(self, obj: JsonObject, *others: JsonObject) -> ExternalPlan:
        written = [json.loads(json.dumps(obj)) for _ in self.servers]
        answers = [
            await planned_external(server, each, self.console, others)
            for server, each in zip(self.servers, written, strict=True)
        ]
        assert answers[0] == answers[1]
        return answers[0]


def test_each_kind_is_explained_from_its_first_day_until_it_works() -> None:
    async def story(cities: Cities) -> None:
        desk = Desk(cities)
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await cities.wait(4)
        waiting = await desk.why("extsvc/db")
        assert waiting.sentence == "ExternalService default/db does not work: No gateway carries 192.0.2.5 yet."
        for _ in range(2):
            await acknowledge(cities)
            await cities.wait(4)
        works = await desk.why("externalservice/db")
        assert works.sentence == "ExternalService default/db works."
        assert {line.answer for line in works.verdicts} == {"Yes"}
        assert (await desk.why("sipc/c")).sentence == "SourceIPClaim default/c holds 192.0.2.5."
        address = await desk.why("sourceip/192.0.2.5")
        assert address.sentence == "SourceIP 192.0.2.5 is Bound."
        assert [(line.rule, line.node) for line in address.verdicts][:2] == [("claim", ""), ("gateway", "dfw-0")]
        assert (await desk.why("sourceipclass/partner")).sentence == "SourceIPClass partner can be used."

    play(ALL, story)


def test_a_no_names_the_smallest_change() -> None:
    async def story(cities: Cities) -> None:
        desk, claims = Desk(cities), cities.user.resource(CLAIMS)
        await prepare(cities, gateways=())
        await claims.create(claim("other", address="192.0.2.5"))
        await claims.create(claim("lost", className="nowhere"))
        elsewhere = [{"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}}]
        await cities.user.resource(SERVICES).create(external("db", sources=elsewhere))
        await cities.wait(3)
        assert "192.0.2.5 is held by a claim of this namespace." in (await desk.why("sipc/other")).sentence
        assert "SourceIPClass nowhere does not exist." in (await desk.why("sipc/lost")).sentence
        assert (await desk.why("extsvc/db")).change == (
            "Annotate Service shop/web with submariner.io/allowed-from: default."
        )
        refused = await desk.why("sourceipclass/partner")
        assert refused.change == "Label a node submariner.io/gateway=true."

    play(ALL, story)


def test_a_plan_says_what_would_happen_and_makes_nothing() -> None:
    async def story(cities: Cities) -> None:
        desk = Desk(cities)
        await prepare(cities)
        found = await desk.plan(external())
        (source,) = found.sources
        assert found.runs
        assert (source.source_ip, source.cities, source.inbound) == ("192.0.2.5", ["DFW 2"], ["80/TCP"])
        assert source.gateway in ("dfw-0", "dfw-1")
        assert (await cities.user.resource(SERVICES).list("default")).items == []
        inside = await desk.plan(external(targetIP="127.0.0.1"))
        assert [(cause.field, inside.accepted) for cause in inside.causes] == [("spec.targetIP", False)]
        assert (await desk.plan(claim("d", address="192.0.2.7"))).addresses == ["192.0.2.7"]
        assert (await desk.plan(claim("d"))).addresses == ["any free IPv4 address"]
        assert [each.reason for each in (await desk.plan(claim("d", address="192.0.2.5"))).refused] == ["AddressInUse"]

    play(ALL, story)


def test_claims_and_services_of_the_file_are_there_when_a_service_is_planned(tmp_path: Path) -> None:
    async def story(cities: Cities) -> None:
        desk = Desk(cities)
        await prepare(cities)
        sources = [{"service": {"name": "web"}, "sourceIPClaim": {"name": "d"}}]
        service = external("later", sources=sources)
        assert [each.reason for each in (await desk.plan(service)).sources[0].refused] == ["ClaimNotFound"]
        (source,) = (await desk.plan(service, claim("d", address="192.0.2.9"))).sources
        assert (source.source_ip, source.refused) == ("192.0.2.9", [])
        (source,) = (await desk.plan(service, claim("d"))).sources
        assert source.source_ip == "any free IPv4 address"
        file = tmp_path / "file.yaml"
        file.write_text("\n---\n".join(json.dumps(each) for each in (service, claim("d", address="192.0.2.9"))))
        assert await plan(cities.user, "default", str(file), (), desk.console, "text") == 0
        shown = desk.out.getvalue()
        assert "SourceIPClaim default/d would hold 192.0.2.9." in shown
        assert "ExternalService default/later would work." in shown

    play(ALL, story)


def test_a_grant_that_a_file_makes_up_in_another_namespace_opens_nothing() -> None:
    async def story(cities: Cities) -> None:
        desk = Desk(cities)
        await prepare(cities)
        await cities.user.resource(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        )
        theirs: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
        await cities.user.resource(CORE_SERVICES).create(json.loads(json.dumps(theirs)))
        theirs["metadata"]["annotations"] = {"submariner.io/allowed-from": "*"}
        sources = [{"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}}]
        (source,) = (await desk.plan(external(sources=sources), theirs)).sources
        assert [each.reason for each in source.refused] == ["NotGranted"]

    play(ALL, story)


@pytest.mark.parametrize("verb", ["why", "plan"])
def test_a_user_without_rights_gets_no_answer(verb: str) -> None:
    async def story(cities: Cities) -> None:
        await prepare(cities)
        stranger = cities.world.reliable(User("mallory", groups=("system:authenticated",)))
        path = f"/apis/submariner.io/v1alpha1/namespaces/default/sourceipclaims/c/{verb}"
        with pytest.raises(Exception, match=r"cannot (get|create) resource"):
            await stranger.call("GET" if verb == "why" else "POST", path)

    play(ALL, story)
