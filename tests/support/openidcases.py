"""Tokens of an OpenID Connect issuer, good and bad, and the result of each: the same on ours and on kube-apiserver.

Both run with the flags of `FLAGS`. `None` is a rejection.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.support.openid import OTHER_RSA_KEY, RSA_KEY, FakeIssuer, signed

ELLIPTIC = {
    name: ec.generate_private_key(curve())
    for name, curve in {"es256": ec.SECP256R1, "es384": ec.SECP384R1, "es512": ec.SECP521R1}.items()
}


def flags(issuer: FakeIssuer, ca_file: str, claim: str = "sub") -> tuple[str, ...]:
    """The flags of either server."""
    return (
        f"--oidc-issuer-url={issuer.url}",
        "--oidc-client-id=tarmac",
        f"--oidc-username-claim={claim}",
        "--oidc-groups-claim=groups",
        "--oidc-groups-prefix=oidc:",
        "--oidc-required-claim=hd=example.com",
        "--oidc-signing-algs=RS256,RS384,RS512,ES256,ES384,ES512,PS256",
        f"--oidc-ca-file={ca_file}",
    )


@dataclass(frozen=True)
class Case:
    """One token. `groups` are those besides system:authenticated."""

    name: str
    make: Callable[[FakeIssuer], str]
    user: str | None = None
    groups: tuple[str, ...] = ()
    extra: dict[str, list[str]] = field(default_factory=dict[str, list[str]])


def _with(header: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> Callable[[FakeIssuer], str]:
    """Call claims that are functions when the token is made."""

    def make(issuer: FakeIssuer) -> str:
        changed = {name: value() if callable(value) else value for name, value in claims.items()}
        return issuer.token(header, key, **{"hd": "example.com", **changed})

    return make


def _in(seconds: float) -> Callable[[], int]:
    return lambda: int(time.time() + seconds)


def _public(issuer: FakeIssuer) -> bytes:
    return RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _hmac(issuer: FakeIssuer) -> str:
    return signed({"alg": "HS256", "kid": "one"}, issuer.claims(hd="example.com"), _public(issuer))


def _unsigned(issuer: FakeIssuer) -> str:
    return signed({"alg": "none", "kid": "one"}, issuer.claims(hd="example.com"), RSA_KEY)


def _changed(issuer: FakeIssuer) -> str:
    header, _, signature = issuer.token(hd="example.com").split(".")
    return f"{header}.{issuer.token(hd='example.com', sub='root').split('.')[1]}.{signature}"


JANE = "ISSUER#jane"
CASES = (
    Case("ordinary", _with(), JANE),
    Case("with groups", _with(groups=["a", "b"]), JANE, ("oidc:a", "oidc:b")),
    Case("one group as a text", _with(groups="a"), JANE, ("oidc:a",)),
    Case("no groups", _with(groups=[]), JANE),
    Case("several audiences", _with(aud=["other", "tarmac"]), JANE),
    Case("an id of its own", _with(jti="x1"), JANE, extra={"authentication.kubernetes.io/credential-id": ["JTI=x1"]}),
    Case("a key without a name", _with({"kid": ""}), JANE),
    Case("times with fractions", _with(exp=lambda: time.time() + 600.5), JANE),
    Case("a time in a text", _with(exp=lambda: str(int(time.time() + 600))), JANE),
    Case("a clock that is a little behind", _with(nbf=_in(30)), JANE),
    Case("RS512", _with({"alg": "RS512"}), JANE),
    Case("PS256", _with({"alg": "PS256"}), JANE),
    *(Case(name, _with({"alg": name.upper(), "kid": name}, key), JANE) for name, key in ELLIPTIC.items()),
    Case("an algorithm that is not allowed", _with({"alg": "PS384"})),
    Case("an elliptic key under another algorithm", _with({"alg": "RS256", "kid": "es256"})),
    Case("an unknown extension that must be understood", _with({"crit": ["exp"], "exp": 1})),
    Case("not signed", _unsigned),
    Case("signed with the public key as a secret", _hmac),
    Case("changed on the way", _changed),
    Case("another's key", _with(key=OTHER_RSA_KEY)),
    Case("an unknown key", _with({"kid": "nobody's"}, OTHER_RSA_KEY)),
    Case("another issuer", _with(iss="https://elsewhere.example")),
    Case("the issuer with a slash", lambda issuer: issuer.token(hd="example.com", iss=f"{issuer.url}/")),
    Case("no issuer", lambda issuer: signed({"alg": "RS256", "kid": "one"}, {"sub": "jane"}, RSA_KEY)),
    Case("another audience", _with(aud="other")),
    Case("no audience", lambda issuer: issuer.token(hd="example.com", aud=None)),
    Case("an audience of a wrong type", _with(aud={"tarmac": True})),
    Case("audiences of a wrong type", _with(aud=["tarmac", 1])),
    Case("expired", _with(exp=_in(-5))),
    Case("without an end", lambda issuer: issuer.token(hd="example.com", exp=None)),
    Case("an end of a wrong type", _with(exp="soon")),
    Case("an end that is true", _with(exp=True)),
    Case("not valid yet", _with(nbf=_in(3600))),
    Case("a beginning of a wrong type", _with(nbf="now")),
    Case("a moment of issue of a wrong type", _with(iat=["now"])),
    Case("no name", lambda issuer: issuer.token(hd="example.com", sub=None)),
    Case("a name of a wrong type", _with(sub=7)),
    Case("groups of a wrong type", _with(groups={"a": "b"})),
    Case("a group of a wrong type", _with(groups=["a", 1])),
    Case("a required claim is missing", lambda issuer: issuer.token()),
    Case("a required claim has another value", _with(hd="example.org")),
    Case("a required claim of a wrong type", _with(hd=["example.com"])),
    Case("claims that are no object", lambda _: signed({"alg": "RS256", "kid": "one"}, ["jane"], RSA_KEY)),
    Case("two parts more", lambda issuer: f"{issuer.token(hd='example.com')}.e30.e30"),
)

EMAIL_CASES = (
    Case("an address", _with(email="j@example.com"), "j@example.com"),
    Case("a verified address", _with(email="j@example.com", email_verified=True), "j@example.com"),
    Case("an address that is not verified", _with(email="j@example.com", email_verified=False)),
    Case("a verification of a wrong type", _with(email="j@example.com", email_verified="true")),
    Case("no address", _with()),
    Case("an address of a wrong type", _with(email=["j@example.com"])),
)
