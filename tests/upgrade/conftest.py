"""The previous version, as its users have it: from the commit that `previous` names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.previous import NoHistory, previous_python


@pytest.fixture(scope="session")
def previous() -> Path:
    """A Python with this version installed. A clone without the repository's history cannot have it, and skips."""
    try:
        return previous_python()
    except NoHistory as missing:
        pytest.skip(f"NOT RUN: {missing}")
