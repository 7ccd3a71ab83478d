"""What one Network may cost a node. What would cost more is refused, and denied everything instead.

Rules and Services are people's to write, and a node serves many people: a Network that is too large for these bounds
takes nobody's time but its own. They are far above what people need, and a node makes one Network within them in about
half a second.
"""

from __future__ import annotations

from typing import Final

MOST_STEPS: Final = 1_000_000
"""Labels of selectors compared with those of pods, after an index has picked whom to compare, and parts of rules."""

MOST_RANGES: Final = 20_000
"""Ranges of addresses and ports in all rules; rules that several pods share count once."""

MOST_RULES: Final = 2_000
"""Rules in the kernel: one for each set of ports that is allowed something, by each different set of policies."""

MOST_BACKENDS: Final = 20_000
"""Backends of all ports of the Services that one namespace, or all foreign ones together, have in a Network."""

MOST_REMEMBERING: Final = 500
"""Backends of those among them that remember their clients, which cost the kernel a set each."""


MOST_REFUSING: Final = 1_000
"""Ports of Services beyond those bounds that refuse at once; the others lead nowhere."""


class CompilationTooLarge(Exception):
    """A bound was reached. The message says which."""


class Budget:
    """What is left of a bound on something."""

    def __init__(self, most: int, what: str) -> None:
        self._left = most
        self._refusal = f"more than {most} {what}"

    def spend(self, amount: int) -> None:
        """Take so much. Raises TooLarge, and takes nothing, when less is left: what is smaller may still fit."""
        if amount > self._left:
            raise CompilationTooLarge(self._refusal)
        self._left -= amount
