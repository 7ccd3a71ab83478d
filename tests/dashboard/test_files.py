"""The built page: files by name alone, strict security headers, a nonce for each page."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from inspect import isawaitable
from pathlib import Path

import pytest

from tarmac.base.randomness import Randomness
from tarmac.dashboard.files import DashboardFiles
from tarmac.http.messages import Request, Response


@pytest.fixture
def files(tmp_path: Path) -> DashboardFiles:
    (tmp_path / "index.html").write_text('<meta name="csp-nonce" content="{{nonce}}"><script src=main-1.js></script>')
    (tmp_path / "main-1.js").write_text("code")
    (tmp_path / "main-1.js.gz").write_bytes(gzip.compress(b"code"))
    (tmp_path / "secret.txt").write_text("not in the manifest")
    (tmp_path / "manifest.json").write_text('{"files": ["main-1.js"]}')
    return DashboardFiles(Randomness(), tmp_path)


async def ask(
    files: DashboardFiles, path: str, method: str = "GET", headers: Mapping[str, str] | None = None
) -> Response:
    answer = files.answer(Request(method, path, headers=headers))
    return await answer if isawaitable(answer) else answer


def header(answer: Response, name: str) -> str:
    return dict(answer.headers or ())[name]


async def test_each_page_has_a_nonce_of_its_own_in_policy_and_text(files: DashboardFiles) -> None:
    nonces: set[str] = set()
    for path in ("/dashboard/", "/dashboard/index.html"):
        answer = await ask(files, path)
        found = re.search(r"'nonce-([^']+)'", header(answer, "Content-Security-Policy"))
        assert found is not None
        assert f'content="{found[1]}"'.encode() in bytes(answer.body)  # type: ignore[arg-type]
        assert header(answer, "Cache-Control") == "no-store"
        nonces.add(found[1])
    assert len(nonces) == 2


async def test_files_may_be_kept_for_ever_and_come_packed(files: DashboardFiles) -> None:
    plain = await ask(files, "/dashboard/main-1.js")
    packed = await ask(files, "/dashboard/main-1.js", headers={"accept-encoding": "gzip"})
    assert plain.body == b"code"
    assert gzip.decompress(bytes(packed.body)) == b"code"  # type: ignore[arg-type]
    assert header(packed, "Content-Encoding") == "gzip"
    assert "immutable" in header(plain, "Cache-Control")


@pytest.mark.parametrize(
    "path", ["secret.txt", "../files.py", "main-1.js.gz", "/etc/passwd", "manifest.json", "%2e%2e/x"]
)
async def test_nothing_but_what_the_manifest_names_is_served(files: DashboardFiles, path: str) -> None:
    assert (await ask(files, f"/dashboard/{path}")).status == 404


async def test_every_answer_holds_the_browser_to_the_page(files: DashboardFiles, tmp_path: Path) -> None:
    unbuilt = DashboardFiles(Randomness(), tmp_path / "nowhere")
    answers = [await ask(files, f"/dashboard/{path}") for path in ("", "main-1.js", "nothing")]
    for answer in (*answers, await ask(files, "/dashboard/", "POST"), await ask(unbuilt, "/dashboard/")):
        policy = header(answer, "Content-Security-Policy")
        for rule in ("default-src 'none'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"):
            assert rule in policy
        assert "unsafe" not in policy
        assert header(answer, "X-Content-Type-Options") == "nosniff"


async def test_it_says_what_to_do_where_it_is_not_there(files: DashboardFiles, tmp_path: Path) -> None:
    moved = await ask(files, "/dashboard")
    assert (moved.status, header(moved, "Location")) == (301, "/dashboard/")
    refused = await ask(files, "/dashboard/", "DELETE")
    assert (refused.status, header(refused, "Allow")) == (405, "GET, HEAD")
    unbuilt = await ask(DashboardFiles(Randomness(), tmp_path / "nowhere"), "/dashboard/")
    assert unbuilt.status == 503
    assert b"make setup" in bytes(unbuilt.body)  # type: ignore[arg-type]
