"""NetworkPolicies of `networking.k8s.io`: defaults, warnings and the limit of their entries."""

from __future__ import annotations

import pytest

from tarmac.api.kubernetes.networking.policies import NetworkPolicyStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

STRATEGY = NetworkPolicyStrategy()


def policy(**spec: object) -> JsonObject:
    made: JsonObject = {"metadata": {"name": "a"}, "spec": {"podSelector": {}, **spec}}
    STRATEGY.default(made)
    return made


def block(text: str, *exceptions: str) -> list[JsonObject]:
    return [{"from": [{"ipBlock": {"cidr": text, "except": list(exceptions)}}]}]


def refusals(obj: JsonObject, old: JsonObject | None = None) -> list[str]:
    with FieldErrors() as errors:
        if old is None:
            STRATEGY.validate(obj, errors)
        else:
            STRATEGY.validate_update(obj, old, errors)
    return [str(error) for error in errors]


def test_types_follow_from_the_rules() -> None:
    assert policy()["spec"]["policyTypes"] == ["Ingress"]
    assert policy(egress=[{}])["spec"]["policyTypes"] == ["Ingress", "Egress"]
    assert policy(egress=[{}], policyTypes=["Egress"])["spec"]["policyTypes"] == ["Egress"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10.0.0.0/8", []),
        ("10.1.0.0/8", ["is ambiguous"]),
        ("010.0.0.0/8", ["non-standard"]),
        ("2001:DB8::/64", ["RFC 5952"]),
    ],
)
def test_ranges_that_kubernetes_takes_carry_its_warnings(text: str, said: list[str]) -> None:
    obj = policy(ingress=block(text))
    assert refusals(obj) == []
    found = STRATEGY.warnings(obj, None)
    assert len(found) == len(said)
    assert all(part in warning for part, warning in zip(said, found, strict=True))


def test_an_exception_lies_within_its_range() -> None:
    (refusal,) = refusals(policy(ingress=block("10.0.0.0/8", "10.1.0.0/16", "11.0.0.0/16")))
    assert refusal.startswith('spec.ingress[0].from[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16"')
    assert len(refusals(policy(ingress=block("10.0.0.0/8", "::/0", "10.0.0.0/8")))) == 2


def test_a_range_that_was_stored_stays_valid() -> None:
    old = policy(ingress=block("10.0.0.0/99"))
    assert len(refusals(old)) == 1
    assert refusals(policy(ingress=block("10.0.0.0/99")), old) == []


def test_entries_are_bounded_and_not_checked_beyond() -> None:
    many = [{"ports": [{"port": 0}] * 2001}]
    (refusal,) = refusals(policy(egress=many))
    assert "spec.egress" in refusal
    assert "2000" in refusal
