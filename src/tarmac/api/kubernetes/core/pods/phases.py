"""Phases of a pod that are final: nothing of it runs any more, and nothing of it ever will again.

Such a pod holds no room on its node and none of a quota, serves nobody, and needs no protection. A pod that is being
deleted is another matter: its containers may run for as long as their grace lasts.
"""

from __future__ import annotations

from typing import Final

from tarmac.api.schema import JsonObject

TERMINAL: Final = ("Succeeded", "Failed")


def is_terminal(pod: JsonObject) -> bool:
    """Whether an encoded Pod has run its course."""
    return (pod.get("status") or {}).get("phase") in TERMINAL
