"""Files are fetched whole, downloads resume, and only http works, within limits."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tarmac.runtimes.interface import ImageRefused
from tarmac.runtimes.qemu.images import fetch as fetching
from tarmac.runtimes.qemu.images.fetch import REDIRECTS, fetch
from tests.runtimes.qemu.images.serving import FileServer, serving

CONTENT = bytes(range(256)) * 8192  # 2 MiB


@pytest.fixture
def server() -> Generator[FileServer]:
    with serving(CONTENT) as found:
        yield found


def nothing(here: int, needed: int) -> None: ...


def test_a_file_is_fetched_and_its_progress_told(server: FileServer, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    fetch(server.url, tmp_path / "file", lambda *each: told.append(each))
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_told_and_the_next_attempt_asks_for_the_rest(server: FileServer, tmp_path: Path) -> None:
    server.breaks_after = 300_000
    with pytest.raises(ImageRefused, match="hung up after 300000 of 2097152 bytes"):
        fetch(server.url, tmp_path / "file", nothing)
    fetch(server.url, tmp_path / "file", nothing)
    assert server.asked == ["", "bytes=300000-"]
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_knows_no_ranges_sends_all_of_it_again(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 1000)
    server.ranges = False
    fetch(server.url, tmp_path / "file", nothing)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_complete_file_is_not_fetched_again(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    fetch(server.url, tmp_path / "file", nothing)
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_redirects_are_followed_so_often_and_no_more(server: FileServer, tmp_path: Path) -> None:
    server.redirects = [f"{server.url}?{each}" for each in range(REDIRECTS)]
    fetch(server.url, tmp_path / "file", nothing)
    assert (tmp_path / "file").read_bytes() == CONTENT
    server.redirects = [f"{server.url}?{each}" for each in range(REDIRECTS + 1)]
    with pytest.raises(ImageRefused, match="answered 302"):
        fetch(server.url, tmp_path / "other", nothing)


@pytest.mark.parametrize("scheme", ["file:///etc/passwd", "ftp://127.0.0.1/file", "gopher://127.0.0.1/", "data:,x"])
def test_no_other_scheme_is_spoken_neither_asked_for_nor_by_redirect(
    server: FileServer, tmp_path: Path, scheme: str
) -> None:
    with pytest.raises(ImageRefused):
        fetch(scheme, tmp_path / "file", nothing)
    server.redirects = [scheme]
    with pytest.raises(ImageRefused):
        fetch(server.url, tmp_path / "file", nothing)
    assert not (tmp_path / "file").exists()


def test_a_servers_error_body_is_not_passed_on(server: FileServer, tmp_path: Path) -> None:
    server.status = 403
    with pytest.raises(ImageRefused, match="answered 403") as caught:
        fetch(server.url, tmp_path / "file", nothing)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("stated", [True, False])
def test_a_file_that_is_too_large_is_given_up(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stated: bool
) -> None:
    monkeypatch.setattr(fetching, "MAX_BYTES", 1 << 20)
    server.length = stated
    with pytest.raises(ImageRefused, match="this node takes 1048576"):
        fetch(server.url, tmp_path / "file", nothing)
    assert not (tmp_path / "file").exists() or (tmp_path / "file").stat().st_size <= 1 << 20


def test_an_unreachable_host_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ImageRefused, match=r"127\.0\.0\.1:1 cannot be reached"):
        fetch("http://127.0.0.1:1/file", tmp_path / "file", nothing)
