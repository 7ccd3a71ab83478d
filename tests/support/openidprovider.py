"""An OpenID Connect provider that signs users in by authorization code with PKCE, and misbehaves on request.

It is strict where a provider has to be: a code works once, for the client, redirect URI and verifier of its request.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tests.support.openid import FakeIssuer, Page, fake_issuer

_HTML = {"Content-Type": "text/html; charset=utf-8"}
_JSON = {"Content-Type": "application/json"}


class Provider:
    """The sign-in of an issuer."""

    def __init__(self, issuer: FakeIssuer, secret: str) -> None:
        self.issuer = issuer
        self.secret = secret
        self.requests: list[dict[str, str]] = []
        """The parameters of each authorization request."""
        self.changed: dict[str, Any] = {}
        """Claims of further ID tokens that differ from the usual ones."""
        self.header: dict[str, Any] = {}
        self.refusal: dict[str, str] = {}
        """An error to send back instead of a code."""
        self.discovery: dict[str, Any] = {}
        """Fields of the discovery document that differ from the usual ones."""
        self.redeemed = 0
        self._codes: dict[str, dict[str, str]] = {}
        issuer.pages, issuer.discovery = self._page, self._document

    def _document(self) -> bytes:
        url = self.issuer.url
        usual = {
            "issuer": url, "jwks_uri": f"{url}/keys", "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token", "end_session_endpoint": f"{url}/sign-out",
            "scopes_supported": ["openid", "email", "offline_access"], "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        }  # fmt: skip
        return json.dumps({**usual, **self.discovery}).encode()

    def _page(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Page | None:
        parts = urlsplit(target)
        if (method, parts.path) == ("GET", "/authorize"):
            return self._authorize(dict(parse_qsl(parts.query)))
        if (method, parts.path) == ("POST", "/token"):
            return self._token(dict(parse_qsl(body.decode())), headers)
        return (200, _HTML, b"<h1>Signed out of the provider</h1>") if parts.path == "/sign-out" else None

    def _authorize(self, asked: dict[str, str]) -> Page:
        self.requests.append(asked)
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked
        back = {"state": asked["state"], **(self.refusal or {"code": code})}
        href = escape(f"{asked['redirect_uri']}?{urlencode(back)}")
        return 200, _HTML, f'<h1>Example ID</h1><a href="{href}">Continue as jane</a>'.encode()

    def _token(self, asked: dict[str, str], headers: dict[str, str]) -> Page:
        began = self._codes.pop(asked.get("code", ""), None)
        self.redeemed += 1
        if began is None:
            return _error("invalid_grant", "the code is unknown or used")
        if not self._is_client(asked, headers):
            return _error("invalid_client", "the client is not authenticated")
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if (challenge, asked.get("redirect_uri")) != (began["code_challenge"], began["redirect_uri"]):
            return _error("invalid_grant", "verifier or redirect_uri differ from the request")
        claims: dict[str, Any] = {"nonce": began["nonce"], "hd": "example.com", **self.changed}
        token = self.issuer.token(self.header, None, **claims)
        answer = {"id_token": token, "access_token": "access", "refresh_token": "refresh", "token_type": "Bearer"}
        return 200, _JSON, json.dumps(answer).encode()

    def _is_client(self, asked: dict[str, str], headers: dict[str, str]) -> bool:
        if not self.secret:
            return asked.get("client_id") == "tarmac"
        pair = base64.b64encode(f"tarmac:{self.secret}".encode()).decode()
        return headers.get("authorization") == f"Basic {pair}"


@contextmanager
def provider(folder: Path, secret: str = "") -> Generator[Provider]:
    """Serve until the block ends. With a secret, the client has to authenticate with it."""
    with fake_issuer(folder) as issuer:
        yield Provider(issuer, secret)


def _error(error: str, description: str) -> Page:
    return 400, _JSON, json.dumps({"error": error, "error_description": description}).encode()
