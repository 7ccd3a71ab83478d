"""Explanations name the reason and the smallest change; plans show the effects beforehand."""

from __future__ import annotations

from tarmac.decide.egress.compiling import compile_service
from tarmac.decide.egress.pool import SourceIPPool
from tarmac.decide.egress.sources import resolve
from tarmac.decide.egress.status import Observed
from tarmac.decide.explain.externalservices import explain_service
from tarmac.decide.explain.sourceips import explain_claim
from tarmac.decide.plans.egress import plan_claim, plan_service
from tests.decide.egress.making import address_class, claim, service, source_ip
from tests.decide.egress.test_external_service_status import DIALLED, compiled, observed
from tests.decide.egress.worlds import Plain, web


def test_a_service_that_works_says_so_by_city_and_node() -> None:
    found, made = resolve(service(), Plain()), compiled(service(), Plain())
    answer = explain_service(found, made, DIALLED, observed(made))
    assert answer.sentence == "ExternalService team/db works."
    assert {line.rule for line in answer.verdicts} == {"target", "claim", "gateway", "rules", "inbound", "name"}
    assert ("dfw", "dfw-0") in {(line.city, line.node) for line in answer.verdicts if line.rule == "rules"}
    assert answer.change == ""


def test_a_missing_grant_is_told_with_the_annotation_that_would_help() -> None:
    world = Plain(services={"shop/web": web(namespace="shop")})
    theirs = service(sources=[{"service": {"name": "web", "namespace": "shop"}, "sourceIPClaim": {"name": "c"}}])
    found = resolve(theirs, world)
    answer = explain_service(found, compile_service(found, DIALLED, {}, set()), DIALLED, Observed())
    assert (
        "does not work: Service shop/web does not exist, or does not allow ExternalServices of team." in answer.sentence
    )
    assert answer.change == "Annotate Service shop/web with submariner.io/allowed-from: team."


def test_a_service_whose_rules_are_on_their_way_is_to_be_waited_for() -> None:
    found, made = resolve(service(), Plain()), compiled(service(), Plain())
    answer = explain_service(found, made, DIALLED, observed(made, applied=0))
    assert {line.answer for line in answer.verdicts if line.rule == "rules"} == {"Wait"}


def test_a_plan_says_what_would_be_seen_from_where_and_opened() -> None:
    plan = plan_service(resolve(service(), Plain()), Plain())
    (source,) = plan.sources
    assert plan.runs
    assert (source.service, source.source_ip, source.cities) == ("team/web", "192.0.2.5", ["dfw 2"])
    assert (source.gateway, source.inbound) == ("dfw-0", ["80/TCP"])
    refused = plan_service(resolve(service(), Plain(claims={"team/c": claim()})), Plain())
    assert not refused.runs
    assert [each.reason for each in refused.sources[0].refused] == ["ClaimNotBound"]


def test_claims_are_planned_and_explained_by_what_binds_them() -> None:
    asked = claim(address="192.0.2.5")
    verdict = SourceIPPool(address_class(), []).bind(asked)
    assert plan_claim(asked, verdict).addresses == ["192.0.2.5"]
    assert plan_claim(claim(), SourceIPPool(address_class(), []).bind(claim())).addresses == ["any free IPv4 address"]
    assert "is about to be bound" in explain_claim(asked, verdict).sentence
    held = SourceIPPool(address_class(), [source_ip("192.0.2.5", asked)]).bind(asked)
    assert explain_claim(asked, held).sentence == "SourceIPClaim team/c holds 192.0.2.5."
    refused = SourceIPPool(address_class(), []).bind(claim(address="10.0.0.1"))
    assert not plan_claim(claim(), refused).runs
    assert explain_claim(claim(), refused).change == "Ask for one that is, or for any."
