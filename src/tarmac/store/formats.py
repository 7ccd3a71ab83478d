"""The error text of every driver for a store that a newer version has written."""

from __future__ import annotations

from tarmac import __version__


def too_new(found: int, known: int) -> str:
    """Return the operator's message: why the store is not opened, and the two remedies."""
    return (
        f"the store has format {found}, tarmac {__version__} knows up to {known}: "
        "install the newer version or restore a backup"
    )
