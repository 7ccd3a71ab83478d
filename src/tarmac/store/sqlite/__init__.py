"""The default driver: one SQLite file, durable before acknowledging, one disk sync for all concurrent writes."""

from __future__ import annotations

from tarmac.store.sqlite.driver import SqliteStore

__all__ = ["SqliteStore"]
