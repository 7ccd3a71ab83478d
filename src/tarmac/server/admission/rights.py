"""The check of the right `use` on a cluster-scoped object, such as a class.

Usually the right must be cluster-wide. If the using object is in a namespace and the used object itself lists the
namespaces it is for, a right in that namespace suffices.
"""

from __future__ import annotations

from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.authorization.authorize import Authorizer
from tarmac.server.security.users import User


def may_use(authorizer: Authorizer, user: User, bucket: str, name: str, namespace: str = "") -> bool:
    """Return True if the user may use the object; with a namespace, a right in that namespace suffices."""
    group, _, plural = bucket.partition("/")
    return authorizer.refuses(user, RequestInfo("use", "", True, group, "v1", plural, "", namespace, name)) is None
