"""Maps the claims of a token to a user: name, groups, uid, extra, and conditions.

Each part is a function of the claims, built from a claim name or an expression. Claims are read and rejected as
kube-apiserver does it: a missing or non-string name and an unverified e-mail address are rejected; missing groups mean
none, and a single string is one group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tarmac.server.security.tokens.jwt import InvalidToken
from tarmac.server.security.users import User

Claims = dict[str, Any]
_AUTHENTICATED = "system:authenticated"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True)
class Mapping:
    """The mapping of one issuer's tokens to users. Every function raises InvalidToken."""

    username: Callable[[Claims], str]
    groups: Callable[[Claims], tuple[str, ...]] = lambda _: ()
    uid: Callable[[Claims], str] = lambda _: ""
    extra: tuple[tuple[str, Callable[[Claims], tuple[str, ...]]], ...] = ()
    claim_rules: tuple[Callable[[Claims], None], ...] = ()
    user_rules: tuple[Callable[[User], None], ...] = ()

    def user(self, claims: Claims) -> User:
        """Return the user described by the claims of a verified token. Raises InvalidToken."""
        name = self.username(claims)
        groups, uid = self.groups(claims), self.uid(claims)
        extra = {key: values for key, of in self.extra if (values := of(claims))}
        if isinstance(identity := claims.get("jti"), str) and identity:
            extra[_CREDENTIAL_ID] = (f"JTI={identity}",)
        for rule in self.claim_rules:
            rule(claims)
        for rule in self.user_rules:
            rule(User(name, uid, groups, extra))  # rules do not see system:authenticated, which is added below
        return User(name, uid, (*groups, _AUTHENTICATED), extra)


def username_claim(claim: str, prefix: str) -> Callable[[Claims], str]:
    """Take the user name from a claim."""

    def name(claims: Claims) -> str:
        found = text_of(claims, claim, f'parse username claims "{claim}"')
        if claim == "email" and claims.get("email_verified", True) is not True:
            raise InvalidToken("oidc: email not verified")
        if not prefix + found:
            raise InvalidToken(f'oidc: the username claim "{claim}" is empty')
        return prefix + found

    return name


def groups_claim(claim: str, prefix: str) -> Callable[[Claims], tuple[str, ...]]:
    """Take the groups from a claim: a list of strings, or one string."""

    def groups(claims: Claims) -> tuple[str, ...]:
        found = claims.get(claim)
        listed = [] if found is None else [found] if isinstance(found, str) else found
        if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
            raise InvalidToken(f'oidc: parse groups claim "{claim}": it is neither a text nor a list of texts')
        return tuple(prefix + each for each in listed)

    return groups


def uid_claim(claim: str) -> Callable[[Claims], str]:
    """Take the uid from a claim."""
    return lambda claims: text_of(claims, claim, f'parse uid claim "{claim}"')


def required_claim(claim: str, value: str) -> Callable[[Claims], None]:
    """Require a claim with this string value."""

    def check(claims: Claims) -> None:
        if claim not in claims:
            raise InvalidToken(f"oidc: required claim {claim} not present in ID token")
        found = text_of(claims, claim, f"parse claim {claim}")
        if found != value:
            raise InvalidToken(f"oidc: required claim {claim} value does not match. Got = {found}, want = {value}")

    return check


def text_of(claims: Claims, claim: str, doing: str) -> str:
    """Return a string claim; null is empty, as in kube-apiserver. Raises InvalidToken."""
    if claim not in claims:
        raise InvalidToken(f"oidc: {doing}: claim not present")
    found = claims[claim]
    if found is not None and not isinstance(found, str):
        raise InvalidToken(f"oidc: {doing}: it is no text")
    return found or ""
