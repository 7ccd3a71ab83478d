"""The file of `--authentication-config`: strict, followed while the server runs, with expressions over claims."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.apps.authentication import authentication_of
from tarmac.apps.commands import parsed
from tarmac.server.security.authentication.openid.configuration import BadConfiguration, read_configuration
from tarmac.server.security.authentication.openid.following import POLL_INTERVAL, follow
from tarmac.server.security.authentication.openid.keys import MIN_FETCH_INTERVAL
from tests.security.test_openid import Door, door, served
from tests.support.openid import FakeIssuer, fake_issuer

__all__ = ["door", "served"]  # fixtures

Json = dict[str, Any]


def issuer_of(url: str = "https://a.example", **more: Any) -> Json:
    return {"issuer": {"url": url, "audiences": ["tarmac"], **more}, "claimMappings": {"username": CLAIM}}


CLAIM = {"claim": "sub", "prefix": ""}


def document(*issuers: Json, **more: Any) -> bytes:
    whole = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [*issuers]}
    return yaml.safe_dump({**whole, **more}).encode()


def mapped(**mappings: Any) -> Json:
    return {**issuer_of(), "claimMappings": {"username": CLAIM, **mappings}}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "this is no YAML"),
        (b"[]", "Expected `object`"),
        (b"a: &a [x]\nb: [" + b"*a, " * 20_000 + b"]", "too"),
        (document(kind="KubeletConfiguration"), "write apiserver.config.k8s.io/v1"),
        (document(apiVersion="apiserver.config.k8s.io/v1beta1"), "write apiserver.config.k8s.io/v1"),
        (document(surprise=1), "unknown field `surprise`"),
        (document(anonymous={"enabled": False}), "unknown field `anonymous`"),
        (document() + b"kind: AuthenticationConfiguration\n", "is there twice"),
        (document(issuer_of(egressSelectorType="cluster")), "unknown field `egressSelectorType`"),
        (document(*[issuer_of(f"https://{number}.example") for number in range(65)]), "jwt: Too many"),
        (document(issuer_of(), issuer_of()), "jwt[1].issuer.url: Duplicate value"),
        (document(issuer_of("")), "jwt[0].issuer.url: Required value"),
        (document(issuer_of("http://a.example")), "must be https"),
        (document(issuer_of("https://kubernetes.default.svc")), "issues the tokens of service accounts"),
        (document(issuer_of(discoveryURL="https://a.example/")), "must be different from url"),
        (document(issuer_of(discoveryURL="file:///etc/passwd")), "jwt[0].issuer.discoveryURL"),
        (document(issuer_of(audiences=[])), "jwt[0].issuer.audiences: Required value"),
        (document(issuer_of(audiences=["a", "b"])), "jwt[0].issuer.audienceMatchPolicy"),
        (document(issuer_of(audiences=["a", "a"], audienceMatchPolicy="MatchAny")), "audiences: Duplicate value"),
        (document(issuer_of(certificateAuthority="x")), "jwt[0].issuer.certificateAuthority"),
        (document({"issuer": issuer_of()["issuer"]}), "jwt[0].claimMappings.username: Required value"),
        (document(mapped(username={"claim": "sub"})), "jwt[0].claimMappings.username.prefix: Required value"),
        (document(mapped(username={"claim": "sub", "expression": "claims.sub"})), "can't both be set"),
        (document(mapped(username={"expression": "claims.sub", "prefix": ""})), "may not be specified when expression"),
        (document(mapped(username={"expression": "claims."})), "jwt[0].claimMappings.username.expression"),
        (document(mapped(username={"expression": "1"})), "must be of type string, but is int"),
        (document(mapped(username={"expression": "claims.email"})), "claims.email_verified must be used"),
        (document(mapped(groups={"expression": "true"})), "jwt[0].claimMappings.groups.expression"),
        (document(mapped(uid={"claim": "a", "expression": "claims.b"})), "jwt[0].claimMappings.uid"),
        (document(mapped(extra=[{"key": "foo", "valueExpression": "'a'"}])), "jwt[0].claimMappings.extra[0].key"),
        (document(mapped(extra=[{"key": "a.k8s.io/b", "valueExpression": "'a'"}])), "are reserved for Kubernetes"),
        (document(mapped(extra=[{"key": "a.example/b"}])), "extra[0].valueExpression: Required value"),
        (document({**issuer_of(), "claimValidationRules": [{}]}), "claim or expression is required"),
        (document({**issuer_of(), "claimValidationRules": [{"expression": "'a'"}]}), "must be of type bool"),
        (document({**issuer_of(), "userValidationRules": [{"expression": "claims.x"}]}), "userValidationRules[0]"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_with_the_field(content: bytes, why: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_configuration(content)
    assert why in str(refused.value)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadConfiguration) as refused:
        read_configuration(document(issuer_of("http://a.example", audiences=[]), issuer_of("")))
    assert all(each in str(refused.value) for each in ("must be https", "jwt[0].issuer.audiences", "jwt[1].issuer.url"))


def test_flags_and_a_file_do_not_go_together_and_a_bad_file_ends_the_start(tmp_path: Path) -> None:
    file = tmp_path / "people.yaml"
    file.write_bytes(document(issuer_of()))
    words = ["server", f"--authentication-config={file}"]
    assert [each.url for each in authentication_of(parsed(words)).issuers] == ["https://a.example"]
    with pytest.raises(ValueError, match="give one of them"):
        authentication_of(parsed([*words, "--oidc-issuer-url=https://b.example", "--oidc-client-id=x"]))
    file.write_bytes(document(issuer_of("")))
    with pytest.raises(ValueError, match=r"people.yaml: jwt\[0\].issuer.url"):
        authentication_of(parsed(words))


def trusting(issuer: FakeIssuer, **mappings: Any) -> Json:
    stated = issuer_of(issuer.url, certificateAuthority=issuer.ca)
    return {**stated, "claimMappings": {**stated["claimMappings"], **mappings}}


@pytest.fixture
async def people(door: Door) -> Door:
    """Authenticate by a file in which names, groups and more are expressions."""
    stated = trusting(
        door.issuer,
        username={"expression": "'id:' + claims.sub"},
        groups={"expression": "claims.roles.filter(r, r != 'x')"},
        uid={"expression": "string(claims.number)"},
        extra=[{"key": "example.com/team", "valueExpression": "has(claims.team) ? claims.team : null"}],
    )
    stated["claimValidationRules"] = [
        {"claim": "hd", "requiredValue": "example.com"},
        {"expression": "claims.exp - claims.iat <= 3600", "message": "an hour at most"},
    ]
    stated["userValidationRules"] = [
        {"expression": "!user.username.startsWith('id:system')", "message": "reserved"},
        {"expression": "user.groups.all(g, !g.startsWith('system:'))", "message": "no groups of ours"},
    ]
    await door.issuers.use(read_configuration(document(stated)))
    return door


GOOD: Json = {"hd": "example.com", "roles": ["a", "x", ""], "number": 7}


async def test_expressions_say_who_somebody_is(people: Door) -> None:
    jane = await people.enter(people.issuer.token(**GOOD, team=["one", "two"]))
    assert (jane.name, jane.uid, jane.groups) == ("id:jane", "7", ("a", "system:authenticated"))
    assert jane.extra == {"example.com/team": ("one", "two")}
    assert (await people.enter(people.issuer.token(**GOOD))).extra == {}
    assert (await people.enter(people.issuer.token({"alg": "PS512"}, **GOOD))).name == "id:jane", "any key algorithm"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"roles": None}, "error evaluating group claim expression"),
        ({"roles": ["a", 1]}, "error evaluating group claim expression"),
        ({"roles": "a"}, "error evaluating group claim expression"),
        ({"number": None}, "error evaluating uid claim expression"),
        ({"sub": None}, "error evaluating username claim expression"),
        ({"team": 7}, "error evaluating extra claim expression"),
        ({"hd": "example.org"}, "required claim hd value does not match"),
        ({"iat": 1}, "an hour at most"),
        ({"sub": "system:admin"}, "reserved"),
        ({"roles": ["system:masters"]}, "no groups of ours"),
    ],
)
async def test_tokens_that_an_expression_rejects_or_fails_on_are_refused(people: Door, claims: Json, why: str) -> None:
    token = people.issuer.token(**{**GOOD, **claims})
    assert why in await people.why(token)
    await people.refused(token)


async def turn(door: Door) -> None:
    """Wait until the follower has read the file."""
    door.clock.advance(POLL_INTERVAL)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_file_is_followed_and_a_bad_one_changes_nothing(door: Door, tmp_path: Path) -> None:
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    file = tmp_path / "people.yaml"
    with fake_issuer(other_folder) as other:
        first = document(trusting(door.issuer))
        file.write_bytes(first)
        await door.issuers.use(read_configuration(first))
        following = asyncio.ensure_future(follow(file, first, door.issuers, door.clock))
        await asyncio.sleep(0)
        token = door.issuer.token()
        jane = await door.enter(token)

        file.write_bytes(b"kind: nonsense")
        await turn(door)
        assert door.ask(token) is jane
        file.unlink()
        await turn(door)
        assert door.ask(token) is jane

        file.write_bytes(document(trusting(door.issuer), trusting(other)))
        await turn(door)
        assert door.ask(token) is jane, "an unchanged issuer keeps its verified tokens"
        assert door.issuer.asked["/keys"] == 1
        assert (await door.enter(other.token())).name == "jane"

        file.write_bytes(document(trusting(door.issuer, username={"claim": "sub", "prefix": "new:"}), trusting(other)))
        await turn(door)
        door.clock.advance(MIN_FETCH_INTERVAL)
        assert (await door.enter(token)).name == "new:jane", "tokens verified by the old mapping are dropped"

        file.write_bytes(document(trusting(other)))
        await turn(door)
        await door.refused(token)
        following.cancel()
        await asyncio.wait([following])
