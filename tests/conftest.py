"""What every suite may ask for."""

from __future__ import annotations

from tests.support.peer import peer as peer
