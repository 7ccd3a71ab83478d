"""The stories there are, by name."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from tests.stories.world import World

Story = Callable[[World], Coroutine[Any, Any, None]]
STORIES: dict[str, Story] = {}


def story(told: Story) -> Story:
    """Put a story on the list."""
    STORIES[told.__name__] = told
    return told


async def play(told: Story, world: World) -> None:
    """From beginning to end; whatever the end, the next story finds an empty planet."""
    await world.begin()
    try:
        await told(world)
    finally:
        await world.clear()
