"""Impersonation: the Impersonate-* headers, each of which needs a permission.

Impersonate-User: jane            verb impersonate on users (or serviceaccounts) of that name
Impersonate-Group: developers     on groups, one header line per group
Impersonate-Uid: 42               on uids.authentication.k8s.io
Impersonate-Extra-Scopes: view    on userextras.authentication.k8s.io/scopes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from tarmac.api.status import BadRequest
from tarmac.http.messages import Request
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer, refusal
from tarmac.server.security.tokens.serviceaccounts import PREFIX
from tarmac.server.security.users import User, account_groups

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_MAX_VALUES = 1_000


class _Guise(NamedTuple):
    """The user that a set of headers describes, and the permissions needed to impersonate it."""

    user: User
    permissions: tuple[RequestInfo, ...]


class Impersonation:
    """Replaces the requester by the impersonated user."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._known: dict[tuple[tuple[str, str], ...], _Guise] = {}  # kept, since users are compared by identity

    def identity(self, request: Request, requester: User) -> User:
        """Return the impersonated user, or the requester without such headers. Raises Forbidden, BadRequest."""
        headers = request.headers
        if "impersonate-" not in " ".join(headers):  # runs for every request, so it avoids a loop in Python
            return requester
        request.impersonator = requester
        return self._act_as(requester, headers)

    def _act_as(self, requester: User, headers: Mapping[str, str]) -> User:
        asked = tuple([line for line in headers.items() if line[0].startswith("impersonate-")])
        guise = self._known.get(asked)
        if guise is None and not headers.get(_USER):
            raise BadRequest(f"requested {[name for name, _ in asked]} without impersonating a user")
        found = guise or _Guise(_user(headers), tuple(_permissions(headers)))
        # Checked with each request, also for a cached guise: that is cached by headers, and the requester's rights
        # change.
        for info in found.permissions:
            why = self._authorizer.refuses(requester, info)
            if why is not None:
                raise refusal(requester, info, why)
        if guise is None:  # cached only after authorization, so that rejected requests cannot fill the cache
            if len(self._known) >= _MAX_VALUES:
                self._known.clear()
            self._known[asked] = found
        return found.user


def _lines(headers: Mapping[str, str], name: str) -> list[str]:
    value = headers.get(name)
    return [] if value is None else value.split("\n")


def _extras(headers: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    for name in headers:
        if name.startswith(_EXTRA):
            yield unquote(name.removeprefix(_EXTRA)), _lines(headers, name)


def _account(user: str) -> tuple[str, str] | None:
    namespace, separator, name = user.removeprefix(PREFIX).partition(":")
    return (namespace, name) if user.startswith(PREFIX) and separator and name else None


def _permissions(headers: Mapping[str, str]) -> Iterator[RequestInfo]:
    account = _account(headers[_USER])
    if account is None:
        yield _permission("", "users", headers[_USER])
    else:
        yield _permission("", "serviceaccounts", account[1], namespace=account[0])
    for group in _lines(headers, _GROUP):
        yield _permission("", "groups", group)
    for key, values in _extras(headers):
        for value in values:
            yield _permission(_AUTHENTICATION, "userextras", value, subresource=key)
    if headers.get(_UID):
        yield _permission(_AUTHENTICATION, "uids", headers[_UID])


def _permission(group: str, resource: str, name: str, namespace: str = "", subresource: str = "") -> RequestInfo:
    return RequestInfo("impersonate", "", True, group, "v1", resource, subresource, namespace, name)


def _user(headers: Mapping[str, str]) -> User:
    name = headers[_USER]
    account = _account(name)
    groups = _lines(headers, _GROUP)
    if not groups and account is not None:
        groups = list(account_groups(account[0]))
    if name == "system:anonymous":
        implied = [] if "system:unauthenticated" in groups else ["system:unauthenticated"]
    elif "system:authenticated" in groups or "system:unauthenticated" in groups:
        implied = []
    else:
        implied = ["system:authenticated"]
    extra = {key: tuple(values) for key, values in _extras(headers)}
    return User(name, headers.get(_UID, ""), (*groups, *implied), extra)
