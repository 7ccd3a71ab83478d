"""Acting as somebody else: the Impersonate-* headers, each of which needs permission.

Impersonate-User: jane            verb impersonate on users (or serviceaccounts) named so
Impersonate-Group: developers     on groups, one header line per group
Impersonate-Uid: 42               on uids.authentication.k8s.io
Impersonate-Extra-Scopes: view    on userextras.authentication.k8s.io/scopes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from urllib.parse import unquote

from tarmac.api.status import BadRequest
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer, refusal
from tarmac.server.security.serviceaccounts import PREFIX, account_groups
from tarmac.server.security.users import User

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_UID = "impersonate-uid"
_EXTRA = "impersonate-extra-"
_AUTHENTICATION = "authentication.k8s.io"
_MOST = 1_000


class Impersonation:
    """Turns a requester into whom they ask to be."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._known: dict[tuple[tuple[str, str], ...], User] = {}  # users are compared by identity, so keep them

    def asked_for(self, headers: Mapping[str, str]) -> bool:
        """Whether any of the headers is there. Called for every request, so it does not loop in Python."""
        return "impersonate-" in " ".join(headers)

    def act_as(self, requester: User, headers: Mapping[str, str]) -> User:
        """The user to be. Raises Forbidden, BadRequest."""
        asked = tuple((name, value) for name, value in headers.items() if name.startswith("impersonate-"))
        if not headers.get(_USER):
            raise BadRequest(f"requested {[name for name, _ in asked]} without impersonating a user")
        for info in _permissions(headers):
            why = self._authorizer.refuses(requester, info)
            if why is not None:
                raise refusal(requester, info, why)
        user = self._known.get(asked)
        if user is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            user = self._known[asked] = _user(headers)
        return user


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
