"""What every driver says of a store that a newer version has written."""

from __future__ import annotations

from tarmac import __version__


def too_new(found: int, known: int) -> str:
    """For the operator: why it is not opened, and both ways on."""
    return (
        f"the store has format {found}, tarmac {__version__} knows up to {known}: "
        "install the newer version or restore a backup"
    )
