"""`tarmac up`: everything on one machine. For now that is the server and its controllers."""

from __future__ import annotations

from tarmac.apps.server import main

__all__ = ["main"]
