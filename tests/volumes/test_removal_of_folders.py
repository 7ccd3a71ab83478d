"""A tenant's folder is removed completely, for any structure, and nothing beside it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.volumes.linux.removal import remove_folder


def test_links_are_removed_and_what_they_point_at_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept/file").touch()
    (tmp_path / "gone/deep").mkdir(parents=True)
    os.symlink(tmp_path / "kept", tmp_path / "gone/deep/link")
    os.symlink(tmp_path / "kept/file", tmp_path / "gone/file")
    remove_folder(str(tmp_path / "gone"))
    assert sorted(os.listdir(tmp_path)) == ["kept"]
    assert os.listdir(tmp_path / "kept") == ["file"]


def test_no_depth_is_too_much(tmp_path: Path) -> None:
    """Deeper than the longest path, and than Python's recursion limit."""
    home = os.open(tmp_path, os.O_RDONLY)
    folder = os.dup(home)
    for _ in range(1100):
        os.mkdir("..removed-1", dir_fd=folder)
        inner = os.open("..removed-1", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    os.close(home)
    remove_folder(str(tmp_path / "..removed-1"))
    assert os.listdir(tmp_path) == []


def test_removing_an_absent_folder_succeeds(tmp_path: Path) -> None:
    remove_folder(str(tmp_path / "none"))


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    os.symlink("kept", tmp_path / "link")
    with pytest.raises(OSError):
        remove_folder(str(tmp_path / "link"))
    assert (tmp_path / "kept").is_dir()
