"""Caches pod specs that passed a validation rule.

Replicas of one template have the same spec, except for the name of the volume with their token. A rule about the spec
alone gives the same result for all of them, so specs without findings are cached as text, per rule. Replacing one token
name by another never changes a result. It is normalised only if it is the only such name in the spec: with two, one may
refer to a volume that the other does not name.
"""

from __future__ import annotations

import re

import msgspec

from tarmac.api.schema import JsonObject

_MAX_SPEC_BYTES = 8 << 10  # bytes of a spec: with `_MAX_SPECS`, half a megabyte for each rule
_MAX_SPECS = 64
_TOKENS = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_SOME_TOKEN = b"\xff"  # no JSON contains this byte

_encode = msgspec.json.Encoder().encode


class PassedSpecs:
    """The most recent specs in which one rule found nothing."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def has(self, text: bytes | None) -> bool:
        """Return True if the rule can be skipped. A hit makes the entry most recent."""
        if text is None or text not in self._known:
            return False
        self._known[text] = self._known.pop(text)
        return True

    def add(self, text: bytes | None) -> None:
        """Add a spec in which the rule found nothing."""
        if text is not None:
            if len(self._known) >= _MAX_SPECS:
                del self._known[next(iter(self._known))]
            self._known[text] = None


def text_of(spec: JsonObject) -> bytes | None:
    """Return the cache key of a spec; None for a spec that is not cached.

    An ephemeral volume names its claim after its Pod, so the result also depends on the Pod's name: not cached.
    """
    try:
        text = _encode(spec)
    except (TypeError, ValueError):
        return None  # not a JSON value: the rule rejects it
    if len(text) > _MAX_SPEC_BYTES or b'"ephemeral"' in text:
        return None
    tokens = set(_TOKENS.findall(text))
    return text.replace(tokens.pop(), _SOME_TOKEN) if len(tokens) == 1 else text
