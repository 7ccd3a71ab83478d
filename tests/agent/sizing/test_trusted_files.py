"""A provider runs with the agent's rights, so only root or the agent may write it, its folder and its configuration."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.agent.sizing.trust import Untrusted, trusted, trusted_program

ME = os.geteuid()
SOMEBODY = 65534
as_root = pytest.mark.skipif(ME != 0, reason="only root can give files to others")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with one program in it."""
    made = tmp_path / "bin"
    made.mkdir(mode=0o755)
    program(made / "sizer")
    return made


def program(path: Path, mode: int = 0o755) -> Path:
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def refusal(path: Path, user: int = ME) -> str:
    with pytest.raises(Untrusted) as caught:
        trusted(path, user)
    return str(caught.value)


def program_refusal(folder: Path, name: str = "sizer") -> str:
    with pytest.raises(Untrusted) as caught:
        trusted_program(folder, name, ME)
    return str(caught.value)


def test_files_writable_by_root_and_the_agent_only_are_trusted(folder: Path) -> None:
    assert trusted(folder, ME) == folder
    assert trusted_program(folder, "sizer", ME) == folder / "sizer"


def test_a_relative_path_is_refused() -> None:
    assert refusal(Path("bin")) == "'bin' is not an absolute path"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path / "no" / "where") == f"{tmp_path}/no: No such file or directory"


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused_even_if_it_is_sticky(folder: Path, mode: int) -> None:
    folder.chmod(mode)
    assert refusal(folder).startswith(f"{folder} can be written by others (mode {mode:04o}); ")


@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_so_is_any_folder_above_it(folder: Path, mode: int) -> None:
    folder.parent.chmod(mode)
    assert refusal(folder).startswith(f"{folder.parent} can be written by others")


def test_a_sticky_folder_of_roots_above_it_is_no_way_in() -> None:
    assert trusted(Path("/tmp/.."), ME) == Path("/")


@as_root
def test_a_sticky_folder_of_somebody_else_is(folder: Path) -> None:
    folder.parent.chmod(0o1777)
    os.chown(folder.parent, SOMEBODY, SOMEBODY)
    assert f"{folder.parent} belongs to user {SOMEBODY}; it has to belong to root or to user {ME}" == refusal(folder)


@as_root
def test_a_foreign_owner_on_any_level_is_refused(folder: Path) -> None:
    for path in (folder / "sizer", folder, folder.parent):
        os.chown(path, SOMEBODY, SOMEBODY)
        assert f"{path} belongs to user {SOMEBODY}" in program_refusal(folder)
        os.chown(path, 0, 0)


@as_root
def test_an_agent_that_is_not_root_believes_itself_and_root(folder: Path) -> None:
    os.chown(folder / "sizer", SOMEBODY, SOMEBODY)
    assert trusted_program(folder, "sizer", SOMEBODY) == folder / "sizer"


@as_root
def test_a_link_that_somebody_else_made_is_refused_wherever_it_leads(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert trusted(link, ME) == folder
    os.lchown(link, SOMEBODY, SOMEBODY)
    assert f"{link} belongs to user {SOMEBODY}" in refusal(link)


def test_where_a_link_leads_counts_with_everything_above_it(folder: Path, tmp_path: Path) -> None:
    open_folder = tmp_path / "open"
    (open_folder / "inner").mkdir(parents=True)
    open_folder.chmod(0o777)
    (folder / "link").symlink_to("../open/inner")
    assert f"{open_folder} can be written by others" in refusal(folder / "link")


def test_links_in_a_circle_end(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    assert "too many links" in refusal(folder / "a")


def test_two_dots_mean_the_folder_that_a_link_led_to(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "x" / "y")
    assert trusted(folder / "link" / "..", ME) == tmp_path / "x"


def test_a_program_may_be_a_link_inside_the_folder_and_is_called_by_its_name(folder: Path) -> None:
    (folder / "alias").symlink_to("sizer")
    assert trusted_program(folder, "alias", ME) == folder / "alias"


@pytest.mark.parametrize("target", ["../other", "{parent}/other", "/bin/sh", "../bin-2/other"])
def test_a_link_out_of_the_folder_is_refused(folder: Path, target: str) -> None:
    program(folder.parent / "other")
    (folder.parent / "bin-2").mkdir()
    program(folder.parent / "bin-2" / "other")
    (folder / "alias").symlink_to(target.format(parent=folder.parent))
    assert "which is outside of" in program_refusal(folder, "alias")


@pytest.mark.parametrize(
    ("mode", "why"),
    [
        (0o644, "has no execute bit"),
        (0o775, "can be written by others"),
        (0o757, "can be written by others"),
        (0o4755, "is setuid or setgid"),
        (0o2755, "is setuid or setgid"),
    ],
)
def test_modes_of_a_program_that_are_refused(folder: Path, mode: int, why: str) -> None:
    (folder / "sizer").chmod(mode)
    assert why in program_refusal(folder)


def test_a_path_that_is_no_file_is_refused(folder: Path) -> None:
    (folder / "inner").mkdir()
    os.mkfifo(folder / "pipe", 0o755)
    assert program_refusal(folder, "inner") == f"{folder}/inner is not a regular file"
    assert program_refusal(folder, "pipe") == f"{folder}/pipe is not a regular file"
    assert "No such file or directory" in program_refusal(folder, "absent")
