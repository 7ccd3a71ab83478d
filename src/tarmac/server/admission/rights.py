"""Whether somebody has the right `use` on a class: one on the whole cluster, never one of a namespace."""

from __future__ import annotations

from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User


def may_use(authorizer: Authorizer, user: User, bucket: str, name: str) -> bool:
    """Whether the user may use the object of this name, such as a RuntimeClass or a PriorityClass."""
    group, _, plural = bucket.partition("/")
    return authorizer.refuses(user, RequestInfo("use", "", True, group, "v1", plural, "", "", name)) is None
