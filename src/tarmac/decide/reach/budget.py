"""Limits on the cost of one Network on a node. Rules beyond them are not compiled; their traffic is denied instead.

Users write rules and Services, and a node serves many users: a Network that exceeds these limits must not take time
from other Networks. The limits are far above normal needs; a node compiles one Network within them in about half a
second.
"""

from __future__ import annotations

from typing import Final

MAX_STEPS: Final = 1_000_000
"""Limit of comparisons of selector requirements with pod labels (after the index lookup), plus parts of rules."""

MAX_RANGES: Final = 20_000
"""Limit of address and port ranges in all rules; rules shared by several pods count once."""

MAX_RULES: Final = 2_000
"""Limit of kernel rules: one for each distinct set of ports in each distinct set of policies."""

MAX_BACKENDS: Final = 20_000
"""Limit of backends, over all Service ports in a Network: of its own namespace, and of all foreign ones together."""

MAX_REMEMBERING: Final = 500
"""Limit of backends with client affinity among them, each of which needs a kernel set."""


MAX_REFUSING: Final = 1_000
"""Limit of Service ports beyond those limits that reject connections; any further port leads nowhere."""


class CompilationTooLarge(Exception):
    """A limit was exceeded. The message names it."""


class Budget:
    """The remainder of a limit."""

    def __init__(self, most: int, what: str) -> None:
        self._left = most
        self._refusal = f"more than {most} {what}"

    def spend(self, amount: int) -> None:
        """Subtract an amount, or raise CompilationTooLarge and subtract nothing: a smaller amount may still fit."""
        if amount > self._left:
            raise CompilationTooLarge(self._refusal)
        self._left -= amount
