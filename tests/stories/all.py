"""Every story: importing a module registers its own."""

from __future__ import annotations

from tests.stories import deletion, disruptions, losses, places, quotas, rollouts, scaling
from tests.stories.telling import STORIES as STORIES

OF_MACHINES_TOO = [
    name
    for name, told in STORIES.items()
    if told.__module__.rpartition(".")[2] in ("deletion", "losses", "quotas", "rollouts", "scaling")
]
"""Stories that also run with virtual machines."""

MODULES = (scaling, rollouts, quotas, places, losses, deletion, disruptions)
