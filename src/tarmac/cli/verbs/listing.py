"""Lists for tables, complete with full rights, and correct with fewer.

A server without a kind has no objects of it. Lists that are forbidden or unavailable are left out, with one warning for
each kind, however often a table is redrawn.
"""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden, NotFound
from tarmac.cli.verbs.console import Console
from tarmac.cli.verbs.objectnames import Json
from tarmac.client.client import Client


class TableListing:
    """The lists of one table."""

    def __init__(self, client: Client, console: Console) -> None:
        self._client, self._console = client, console
        self._warned: set[str] = set()

    async def listed(
        self, target: Json, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[JsonObject] | None:
        """Return all objects of a kind; None if unavailable."""
        pages = self._client.resource(target).pages(namespace, labels=labels, fields=fields)
        try:
            return [each async for page in pages for each in page.items]
        except NotFound:
            return []
        except Forbidden:
            why = "may not be listed"
        except ApiError as error:  # metrics come from a separate server, which may be unavailable
            why = f"cannot be listed ({error.message})"
        kind = f"{target.plural}.{target.group}" if target.group else target.plural
        if kind not in self._warned:
            self._warned.add(kind)
            self._console.warn(f"{kind} {why}, so the answer leaves them out")
        return None
