"""Exchanges an authorization code for an ID token at its issuer (OpenID Connect Core 1.0, section 3.1.3).

A browser begins the flow with a code challenge (PKCE, RFC 7636) and a nonce, and comes back with a code. The server
redeems it, since only the server may hold the client's secret, and most issuers answer no script of another origin. The
ID token passes the checks of every request and three of its own: the issuer that was asked, the nonce, and the
authorized party. Access and refresh tokens of the answer are dropped.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import quote_plus, urlencode

import msgspec

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.server.security.authentication.openid.fetching import FETCH_TIMEOUT, is_https, send_to_issuer
from tarmac.server.security.authentication.openid.issuers import Issuer, KeysNeeded
from tarmac.server.security.authentication.openid.keys import BadDocument
from tarmac.server.security.credentials import Credential
from tarmac.server.security.tokens.jwt import InvalidToken, Unverified, parse

_MAX_REASON = 300  # characters of an issuer's error that are shown
_SCOPES = ("profile", "email", "groups")
_log = log("openid")


class Endpoints(msgspec.Struct):
    """The part of a discovery document that signs users in."""

    authorization_endpoint: str
    token_endpoint: str
    end_session_endpoint: str = ""
    scopes_supported: list[str] | None = None
    response_types_supported: list[str] | None = None
    code_challenge_methods_supported: list[str] | None = None
    token_endpoint_auth_methods_supported: list[str] | None = None
    authorization_response_iss_parameter_supported: bool = False

    @property
    def scope(self) -> str:
        """The scopes to request: an issuer may reject those that it does not list."""
        listed = _SCOPES[:2] if self.scopes_supported is None else self.scopes_supported
        return " ".join(("openid", *(each for each in _SCOPES if each in listed)))


class Redemption(NamedTuple):
    """The request of a browser that came back from an issuer."""

    code: str
    verifier: str
    nonce: str
    redirect_uri: str


class SignedIn(NamedTuple):
    """A verified ID token, and its expiry as Unix seconds."""

    token: str
    expires: float


class SignInRefused(Exception):
    """The issuer or its token is not accepted; the text is for the user."""


class _Tokens(msgspec.Struct):
    id_token: str = ""


class _Error(msgspec.Struct):
    error: str = ""
    error_description: str = ""


def endpoints_of(issuer: Issuer) -> Endpoints | None:
    """Return the endpoints of an issuer; None if it does not sign users in by code, such as an issuer of CI jobs."""
    try:
        found = msgspec.json.decode(issuer.document, type=Endpoints)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if not is_https(found.authorization_endpoint) or not is_https(found.token_endpoint):
        return None
    if found.end_session_endpoint and not is_https(found.end_session_endpoint):
        found.end_session_endpoint = ""
    challenges, types = found.code_challenge_methods_supported, found.response_types_supported
    return None if "S256" not in (challenges or ["S256"]) or "code" not in (types or ["code"]) else found


async def redeem(issuer: Issuer, endpoints: Endpoints, asked: Redemption, clock: Clock) -> SignedIn:
    """Return the ID token that the issuer gives for a code, once it is verified. Raises SignInRefused."""
    token = await _id_token(issuer, endpoints, asked)
    try:
        credential = await _verified(issuer, parse(token), asked.nonce, clock)
    except InvalidToken as error:
        # The reason names claims that the administrator demands: it is for the log, not for every user of the issuer.
        _log.warning("sign-in refused", issuer=issuer.settings.url, error=str(error))
        raise SignInRefused(
            f"{issuer.settings.url}: the server does not accept this identity; its log has the reason"
        ) from error
    return SignedIn(token, credential.expires)


async def _id_token(issuer: Issuer, endpoints: Endpoints, asked: Redemption) -> str:
    url, settings = issuer.settings.url, issuer.settings
    form = {
        "grant_type": "authorization_code", "code": asked.code, "code_verifier": asked.verifier,
        "redirect_uri": asked.redirect_uri,
    }  # fmt: skip
    methods = endpoints.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    in_header = bool(settings.client_secret) and "client_secret_basic" in methods
    headers = [("Content-Type", "application/x-www-form-urlencoded")]
    if in_header:
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}".encode()
        headers.append(("Authorization", f"Basic {base64.b64encode(pair).decode()}"))
    else:
        form |= {"client_id": settings.client_id}
        form |= {"client_secret": settings.client_secret} if settings.client_secret else {}
    body = urlencode(form).encode()
    headers.append(("Content-Length", str(len(body))))
    try:
        async with asyncio.timeout(FETCH_TIMEOUT):
            status, answer = await send_to_issuer("POST", endpoints.token_endpoint, settings.context, headers, body)
    except TimeoutError as error:
        raise SignInRefused(f"{url}: no answer in {FETCH_TIMEOUT:g} seconds; try again") from error
    except (OSError, ConnectionBroken, BadDocument, ValueError) as error:
        _log.warning("token endpoint of an issuer failed", issuer=url, error=str(error))
        raise SignInRefused(f"{url}: the token endpoint does not answer; try again") from error
    return _read(url, status, answer)


def _read(url: str, status: int, answer: bytes) -> str:
    if status != 200:
        found = _Error()
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = msgspec.json.decode(answer, type=_Error)
        why = ": ".join(filter(None, (found.error, found.error_description))) or f"the token endpoint answered {status}"
        raise SignInRefused(f"{url}: {why[:_MAX_REASON]}")
    try:
        token = msgspec.json.decode(answer, type=_Tokens).id_token
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        token = ""
    if not token:
        raise SignInRefused(f"{url}: the answer of the token endpoint has no ID token")
    return token


async def _verified(issuer: Issuer, token: Unverified, nonce: str, clock: Clock) -> Credential:
    claims, client = token.claims, issuer.settings.client_id
    if claims.get("iss") != issuer.settings.url:
        raise InvalidToken(f"oidc: the token is of the issuer {claims.get('iss')!r}")
    given = claims.get("nonce")
    if not nonce or not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise InvalidToken("oidc: the nonce is not that of the browser's request")
    if claims.get("azp", client) != client:
        raise InvalidToken(f"oidc: the token is for the authorized party {claims['azp']!r}")
    expiry = claims.get("exp")
    if isinstance(expiry, int | float) and expiry < clock.now():
        raise SignInRefused(
            f"{issuer.settings.url}: the token is expired already; compare the clocks of the issuer and of this server"
        )
    try:
        return issuer.recognise(token)
    except KeysNeeded as needed:
        await needed.keys.refresh()
    try:
        return issuer.recognise(token)
    except KeysNeeded as error:
        raise InvalidToken("oidc: failed to verify id token signature") from error
