"""The identity a request acts under."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, eq=False)
class User:
    """An authenticated identity. Shared between requests of one credential, so compare by identity in caches."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))
