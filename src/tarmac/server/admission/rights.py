"""Whether somebody has the right `use` on an object of the whole cluster, such as a class.

For most it is a right on the whole cluster. Where what uses the object lies in a namespace and the object says itself
which namespaces it is for, a right in that namespace will do.
"""

from __future__ import annotations

from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorize import Authorizer
from tarmac.server.security.users import User


def may_use(authorizer: Authorizer, user: User, bucket: str, name: str, namespace: str = "") -> bool:
    """Whether the user may use the object of this name; with a namespace, whether there."""
    group, _, plural = bucket.partition("/")
    return authorizer.refuses(user, RequestInfo("use", "", True, group, "v1", plural, "", namespace, name)) is None
