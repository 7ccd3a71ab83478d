"""Specs that were looked at before and need not be again.

Pods come in numbers: the replicas of one template have one spec, but for the name of the volume that holds their token.
A rule that is about the spec alone finds in the next one what it found in the first, so the specs in which it found
nothing are remembered, as text, by rule. One name for another, wherever it stands, changes no answer; it is left out
only if it is the one such name, since of two, one may refer to what the other is not.
"""

from __future__ import annotations

import re

import msgspec

from tarmac.api.schema import JsonObject

_LONGEST = 8 << 10  # bytes of a spec: with `_MOST`, half a megabyte for each rule
_MOST = 64
_TOKENS = re.compile(rb'"kube-api-access-[a-z0-9]{5}"')
_SOME_TOKEN = b"\xff"  # no JSON holds this byte

_encode = msgspec.json.Encoder().encode


class Unremarkable:
    """The specs in which one rule found nothing, the most recent ones."""

    def __init__(self) -> None:
        self._known: dict[bytes, None] = {}

    def has(self, text: bytes | None) -> bool:
        """Whether the rule need not look. What is asked for stays longer."""
        if text is None or text not in self._known:
            return False
        self._known[text] = self._known.pop(text)
        return True

    def add(self, text: bytes | None) -> None:
        """The rule has looked at it, and found nothing."""
        if text is not None:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[text] = None


def text_of(spec: JsonObject) -> bytes | None:
    """What a spec is known by; None for one that is not remembered.

    A volume that makes a claim of its own names it after its Pod, so its name counts too.
    """
    try:
        text = _encode(spec)
    except (TypeError, ValueError):
        return None  # a value that no JSON has: for the rule to refuse
    if len(text) > _LONGEST or b'"ephemeral"' in text:
        return None
    tokens = set(_TOKENS.findall(text))
    return text.replace(tokens.pop(), _SOME_TOKEN) if len(tokens) == 1 else text
