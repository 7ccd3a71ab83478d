"""`Enter ~ .` ends a session, as it does with ssh: the one way out for clients that pass on every key.

`~` counts at the beginning of a line only, which is behind Enter and at the start. It is held back until the next key:
`~~` sends one `~`, and before any other key it is sent as it was typed.
"""

from __future__ import annotations

_ENTER = frozenset(b"\r\n")
_TILDE = ord("~")
_DOT = ord(".")


class LeavingKeys:
    """What somebody has typed so far, as much of it as matters."""

    __slots__ = ("_begins", "_held", "left")

    def __init__(self) -> None:
        self._begins = True  # the next key begins a line
        self._held = False  # a `~` that may mean something
        self.left = False
        """They have asked to go."""

    def pass_on(self, keys: bytes) -> bytes:
        """The keys that are for the guest."""
        # Long input is pasted: only where `~` is in it, or was before, is there anything to look at.
        if not self._held and _TILDE not in keys:
            self._begins = keys[-1] in _ENTER if keys else self._begins
            return keys
        out = bytearray()
        for key in keys:
            if self._held:
                self._held = False
                if key == _DOT:
                    self.left = True
                    break
                if key != _TILDE:
                    out.append(_TILDE)
            elif self._begins and key == _TILDE:
                self._held = True
                self._begins = False
                continue
            out.append(key)
            self._begins = key in _ENTER
        return bytes(out)
