"""The registry of stories, by name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.stories.world import World

Story = Callable[[World], Coroutine[Any, Any, None]]
STORIES: dict[str, Story] = {}


def story(told: Story) -> Story:
    """Register a story."""
    STORIES[told.__name__] = told
    return told


async def play(told: Story, world: World) -> None:
    """Run a story from beginning to end; in any case the next story finds an empty planet."""
    await world.begin()
    try:
        await told(world)
    finally:
        await world.clear()
