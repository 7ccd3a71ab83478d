"""The identity a request acts under."""

from __future__ import annotations

from dataclasses import dataclass, field

from tarmac.api.schema import JsonObject


@dataclass(frozen=True, slots=True, eq=False)
class User:
    """An authenticated identity. Shared between requests of one credential, so compare by identity in caches."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))


def user_info(user: User) -> JsonObject:
    """A user as reviews and the audit log show them."""
    info: JsonObject = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info
