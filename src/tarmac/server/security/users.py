"""The user that a request acts as."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.api.schema import JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class User:
    """An authenticated user. Shared between requests of one credential, so caches compare by identity."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of every service account of a namespace, except system:authenticated."""
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def user_info(user: User) -> JsonObject:
    """Return the user as shown in reviews and the audit log."""
    info: JsonObject = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
