"""Namespaces that may use a class or pool."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.api.declare import encode
from tarmac.api.egress.sourceip import AllowedNamespaces
from tarmac.api.shared import LabelSelector
from tarmac.base.selectors import LabelMatcher


def selects(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    """Return True if a selector matches these labels. An invalid selector matches nothing."""
    try:
        return LabelMatcher.from_object(encode(selector)).matches(labels)
    except ValueError:
        return False


def allows_namespace(allowed: AllowedNamespaces | None, namespace: str, labels: Mapping[str, str]) -> bool:
    """Return True if a namespace may use a class or pool. Without `allowedNamespaces` it allows none."""
    if allowed is None:
        return False
    return namespace in allowed.names or (allowed.selector is not None and selects(allowed.selector, labels))
