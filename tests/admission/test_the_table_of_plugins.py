"""The reference lists every plugin that is on, in the order in which they run."""

from __future__ import annotations

import re
from pathlib import Path

from tests.admission.world import World

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kubernetes-kinds.md"


async def test_the_table_is_the_chain() -> None:
    table = PAGE.read_text().partition("| plugin | effect |\n|---|---|\n")[2].partition("\n\n")[0]
    listed = [name for row in table.splitlines() for name in re.findall(r"\w+", row.split("|")[1])]
    async with World() as world:
        assert listed == [plugin.name for plugin in world._plugins]
