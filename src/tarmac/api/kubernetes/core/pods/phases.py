"""Terminal phases of a pod: none of its containers runs or will ever run again.

Such a pod takes no room on its node and none of a quota, serves no traffic, and needs no protection. A pod that is
being deleted is not terminal: its containers may run until the end of their grace period.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.schema import JsonObject

TERMINAL: Final = ("Succeeded", "Failed")


def is_terminal(pod: JsonObject) -> bool:
    """Return True if an encoded Pod is in a terminal phase."""
    return (pod.get("status") or {}).get("phase") in TERMINAL
