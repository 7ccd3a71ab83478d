"""The previous version comes from the repository's history; a clone without it gets an error, and no leftovers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import previous


def test_a_clone_without_the_history_is_told_what_to_fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previous, "NAMED_IN", tmp_path / "previous")
    monkeypatch.setattr(previous, "ROOT", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "previous").write_text("0" * 40 + "\n")
    with pytest.raises(previous.NoHistory, match=r"previous names 0{40}.*fetch the whole history: git fetch"):
        previous.previous_python()
    assert list((tmp_path / "cache" / "tarmac").iterdir()) == []
