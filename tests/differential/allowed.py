"""The differences that are allowed, each with its reason. Anything else fails, and so does an entry that nothing needs.

`case` and `where` are regular expressions over the whole id of a case and the whole place of a difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Allowed:
    """A kind of difference that is meant to be."""

    reason: str
    case: str
    where: str

    def covers(self, case: str, where: str) -> bool:
        """Whether this entry speaks of that difference."""
        return bool(re.fullmatch(self.case, case) and re.fullmatch(self.where, where))


_ANY = ".*"

ALLOWED: tuple[Allowed, ...] = (
    Allowed(
        "networkInterfaces are keyed by a name that may be left out; a CRD cannot say that, and takes the list as a whole",
        _ANY,
        r".*f:spec\.f:template\.f:spec\.f:networkInterfaces\..*",
    ),
)
