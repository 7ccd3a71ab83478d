"""`POST /tarmac/v1/servers`: hands keys, the encryption key and the store's URL to the bearer of a server token.

The single use of the token is recorded before anything is sealed, conditional on the resourceVersion of its Secret: of
two concurrent requests one succeeds. The same name and key may repeat the request for ten minutes, since a joiner can
be killed before it has stored the response; the response is sealed for its key, so a repetition is useless to anyone
else.

A server token is recognised by its Secret, not by a group of the user: groups can be obtained by certificates, by
impersonation, or by a field of a node's token.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Awaitable
from hashlib import sha256
from typing import Any

import msgspec

from tarmac.api.identities import NAMESPACE
from tarmac.api.nodetokens import (
    KIND,
    MAX_SERVER_TTL,
    SECRET_PREFIX,
    SERVER,
    SERVERS_GROUP,
    USED,
    secret_fields,
    used_names,
)
from tarmac.api.schema import JsonObject
from tarmac.api.status import NO_METHOD, BadRequest, Conflict, Forbidden, MethodNotAllowed, NotFound
from tarmac.apps.layout import Layout
from tarmac.base.clock import parse_rfc3339, rfc3339
from tarmac.base.log import log
from tarmac.base.names import dns1123_subdomain
from tarmac.client.client import Client
from tarmac.client.eventrecorder import Recorder, reference
from tarmac.client.targets.untyped import SECRETS
from tarmac.http.messages import Request, Response
from tarmac.server.security.keys.handover import KEY_SIZE, Purpose, seal
from tarmac.server.security.tokens.bootstraptokens import PREFIX
from tarmac.store.open import etcd_files, follows_members, with_known_members

REPEAT_WINDOW = 600.0
HANDED_OVER = "tarmac.dev/handed-over"
_ONLY = "only a server token may join a server"
_MAX_ADDRESSES = 16
_NOT_HANDED = ("server.",)  # each server creates its own certificate
_log = log("server")


class JoiningServer(msgspec.Struct, rename="camel"):
    """The request of a joining server."""

    name: str
    addresses: list[str]
    public_key: str
    version: str = ""

    def key(self) -> bytes:
        """Validate the request and return the public key. Raises BadRequest."""
        if problems := dns1123_subdomain(self.name):
            raise BadRequest(f"name: {problems[0]}")
        if len(self.addresses) > _MAX_ADDRESSES or any(len(each) > 255 for each in self.addresses):
            raise BadRequest(f"addresses: at most {_MAX_ADDRESSES}, of at most 255 characters each")
        try:
            key = base64.b64decode(self.public_key, validate=True)
        except binascii.Error:
            key = b""
        if len(key) != KEY_SIZE:
            raise BadRequest(f"publicKey: must be {KEY_SIZE} bytes in base64")
        return key


class HandOver:
    """The endpoint. `client` is the server's own."""

    def __init__(self, layout: Layout, client: Client, *, shared: bool) -> None:
        self._layout = layout
        self._client = client
        self._shared = shared

    def answer(self, request: Request) -> Awaitable[Response]:
        """Handle the request of a joining server. Raises ApiError."""
        if request.method != "POST":
            raise MethodNotAllowed(NO_METHOD, details={})
        name: str = request.user.name
        if not name.startswith(PREFIX) or SERVERS_GROUP not in request.user.groups or request.impersonator is not None:
            raise Forbidden(_ONLY, details={})
        return self._hand_over(request, name.removeprefix(PREFIX))

    async def _hand_over(self, request: Request, token: str) -> Response:
        if not self._shared:
            kind = "SQLite" if self._layout.store_url.startswith("sqlite:") else "a store of its own"
            raise Conflict(
                f"the server uses {kind}, which one server can use: tarmac store migrate --to etcd://… first",
                details={},
            )
        try:
            joiner = msgspec.json.decode(request.body, type=JoiningServer)
        except msgspec.DecodeError as error:
            raise BadRequest(f"the body: {error}") from None
        key = joiner.key()
        secret = await self._claim(token, joiner.name, key)
        content = self._content()
        purpose = Purpose(token, secret_fields(secret)["token-secret"], joiner.name)
        try:
            public, sealed = seal(msgspec.json.encode(content), key, purpose)
        except ValueError:
            raise BadRequest("publicKey: is no key that anything could be sealed for") from None
        summary = f"{', '.join(content)} to {joiner.name} sha256:{sha256(key).hexdigest()}"
        request.annotations = {HANDED_OVER: summary}
        _log.warning("keys handed over to a new server", token=token, name=joiner.name, address=request.peer_address)
        await self._record(secret, f"handed over {summary}, at {', '.join(joiner.addresses) or request.peer_address}")
        encoded = {"publicKey": _text(public), "sealed": _text(sealed)}
        return Response(200, msgspec.json.encode(encoded))

    async def _claim(self, token: str, name: str, key: bytes) -> JsonObject:
        """Claim the token for this joiner; return its Secret. Raises Forbidden."""
        secrets, used_up = self._client.resource(SECRETS), Forbidden(f'token "{token}" is used up', details={})
        while True:
            try:
                secret = await secrets.get(SECRET_PREFIX + token, NAMESPACE)
            except NotFound:
                raise Forbidden(_ONLY, details={}) from None
            fields, now = secret_fields(secret), self._client.clock.now()
            if fields.get(KIND) != SERVER:
                raise Forbidden(_ONLY, details={})
            _check_end(secret, fields, now)
            mark = f"sha256:{sha256(key).hexdigest()}"
            try:
                used = used_names(fields)
            except ValueError:
                raise used_up from None
            if used:
                at, _, by = used.get(name, "").partition(" ")
                if by != mark or not 0 <= now - parse_rfc3339(at) < REPEAT_WINDOW:
                    raise used_up
                return secret
            try:
                return await secrets.update(_with(secret, {name: f"{rfc3339(now)} {mark}"}))
            except Conflict:
                continue  # a concurrent request changed it: read again

    def _content(self) -> dict[str, Any]:
        layout = self._layout
        files = [file for file in sorted(layout.pki.iterdir()) if file.is_file() and not file.name.startswith(".")]
        pki = {file.name: file.read_text() for file in files if not file.name.startswith(_NOT_HANDED)}
        url, named = layout.store_url, dict[str, str]()
        if follows_members(url):  # the new server has a member and credentials of its own
            url = with_known_members(url)
        else:
            named = {option: _text(file.read_bytes()) for option, file in etcd_files(url).items()}
        return {
            "pki": pki,
            "secrets.key": layout.encryption_key.read_text(),
            "store": {"url": url, "files": named},
        }

    async def _record(self, secret: JsonObject, message: str) -> None:
        recorder = Recorder(self._client, "tarmac-server")
        recorder.event(reference(secret), "Warning", "ServerHandOver", message)
        await recorder.flush()


def _check_end(secret: JsonObject, fields: dict[str, str], now: float) -> None:
    """Reject a server token without expiry or with a long one: `tarmac token create` makes none like it."""
    try:
        end = parse_rfc3339(fields.get("expiration", ""))
        lasts = end - parse_rfc3339(secret["metadata"]["creationTimestamp"])
    except (ValueError, KeyError):
        end, lasts = 0.0, 0.0
    if end <= now or lasts > MAX_SERVER_TTL + 60.0:
        raise Forbidden("a server token ends within an hour: make one with `tarmac token create --server`", details={})


def _with(secret: JsonObject, used: dict[str, str]) -> JsonObject:
    return {**secret, "data": {**secret["data"], USED: _text(json.dumps(used).encode())}}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
