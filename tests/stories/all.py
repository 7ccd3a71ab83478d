"""Every story: importing a module puts its own on the list."""

from __future__ import annotations

from tests.stories import deletion, disruptions, losses, places, quotas, rollouts, scaling
from tests.stories.telling import STORIES as STORIES

MODULES = (scaling, rollouts, quotas, places, losses, deletion, disruptions)
