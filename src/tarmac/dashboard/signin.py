"""Signs users of the dashboard in at an OpenID Connect issuer: `/dashboard/sign-in`.

GET lists the issuers that sign users in by authorization code. POST redeems a code that a browser came back with. The
server keeps nothing between the two: state, nonce and code verifier stay in the browser's tab, and the token becomes a
bearer token of the page, as one that the user pastes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import msgspec

from tarmac.base.clock import Clock
from tarmac.dashboard.answers import refusal
from tarmac.dashboard.files import SIGN_IN
from tarmac.dashboard.headers import page_headers
from tarmac.http.messages import Request, Response
from tarmac.server.security.authentication.openid.codes import (
    Endpoints,
    Redemption,
    SignInRefused,
    endpoints_of,
    redeem,
)
from tarmac.server.security.authentication.openid.issuers import Issuer, Issuers
from tarmac.server.upgrades import is_of_this_server

_MAX_BODY = 16 * 1024
_MAX_AT_ONCE = 8
_WAIT = 1.0  # seconds that a page waits for an issuer whose discovery document is not known yet
_FAILED = "Sign-in failed"


class _Posted(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    issuer: str
    code: str
    verifier: str
    nonce: str
    redirect_uri: str


class SignIn:
    """Serves `/dashboard/sign-in` without authentication."""

    def __init__(self, issuers: Issuers, clock: Clock) -> None:
        self._issuers = issuers
        self._clock = clock
        self._running = 0

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Handle one request."""
        if request.method in ("GET", "HEAD"):
            return self._providers()
        if request.method != "POST":
            return refusal(request, 405, "Only GET and POST", f"{SIGN_IN} lists issuers and redeems codes.")
        if not is_of_this_server(request):
            return refusal(request, 403, "Not from another page", "Origin is not Host; sign in on the dashboard.")
        return self._redeemed(request)

    async def _providers(self) -> Response:
        waiting = [each.keys.begin() for each in self._issuers if not each.document and each.keys.may_change]
        if waiting:
            await asyncio.wait(waiting, timeout=_WAIT)
        found = [(each, endpoints_of(each)) for each in self._issuers]
        shown = [_provider(issuer, endpoints) for issuer, endpoints in found if endpoints is not None]
        return Response(200, msgspec.json.encode({"providers": shown}), headers=page_headers())

    async def _redeemed(self, request: Request) -> Response:
        # Needs no credential, and costs a request to the issuer each time.
        if self._running >= _MAX_AT_ONCE:
            return refusal(request, 429, "Too many sign-ins", f"{_MAX_AT_ONCE} are running; try again in a second.")
        self._running += 1
        try:
            asked = _posted(request)
            issuer = self._issuers.named(asked.issuer)
            endpoints = None if issuer is None else endpoints_of(issuer)
            if issuer is None or endpoints is None:
                return refusal(request, 404, _FAILED, "This server has no such issuer; load the page again.")
            redemption = Redemption(asked.code, asked.verifier, asked.nonce, asked.redirect_uri)
            token, expires = await redeem(issuer, endpoints, redemption, self._clock)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refusal(request, 400, _FAILED, f"The body is not that of a sign-in: {error}")
        except SignInRefused as error:
            return refusal(request, 401, _FAILED, str(error))
        finally:
            self._running -= 1
        # Seconds, not a time: the browser's clock may differ from the server's.
        body = {"token": token, "seconds": max(0.0, expires - self._clock.now())}
        return Response(200, msgspec.json.encode(body), headers=page_headers())


def _provider(issuer: Issuer, endpoints: Endpoints) -> dict[str, object]:
    return {
        "issuer": issuer.settings.url,
        "clientId": issuer.settings.client_id,
        "scope": endpoints.scope,
        "authorizationEndpoint": endpoints.authorization_endpoint,
        "endSessionEndpoint": endpoints.end_session_endpoint,
        "namesItself": endpoints.authorization_response_iss_parameter_supported,
    }


def _posted(request: Request) -> _Posted:
    if len(request.body) > _MAX_BODY:
        raise msgspec.DecodeError(f"more than {_MAX_BODY} bytes")
    return msgspec.json.decode(request.body, type=_Posted)
