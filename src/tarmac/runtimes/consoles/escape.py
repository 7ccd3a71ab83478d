"""`Enter ~ .` ends a session, as in ssh: the only way to leave for clients that send every key.

`~` counts only at the beginning of a line, that is after Enter and at the start. It is held back until the next key:
`~~` sends one `~`, and before any other key it is sent as typed.
"""

from __future__ import annotations

_ENTER = frozenset(b"\r\n")
_TILDE = ord("~")
_DOT = ord(".")


class EscapeSequence:
    """The state of the escape sequence in typed keys."""

    __slots__ = ("_begins", "_held", "left")

    def __init__(self) -> None:
        self._begins = True  # the next key begins a line
        self._held = False  # a `~` was held back
        self.left = False
        """The user has asked to leave."""

    def pass_on(self, keys: bytes) -> bytes:
        """Return the keys to send to the guest."""
        # Long input is pasted: it needs a scan only if it contains `~`, or if one was held back.
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
