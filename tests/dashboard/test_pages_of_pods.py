"""A pod's page in a real browser, by `kubectl proxy`: it gets none of the rights of the user who opens it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.dashboard import browser as chromium
from tests.server.streams.planet import Planet, planet

pytestmark = [pytest.mark.timeout(120)]
_PAGE = """<title>page</title><body>before<script>
document.body.textContent = "ran";
fetch("/api/v1/namespaces/default/secrets").then((reply) => reply.text()).then(() => document.title = "stolen");
</script><form action="/api/v1/namespaces/default/configmaps" method="post"><button>go</button></form>"""
_CODE = 'self.ran = true; document.title = "stolen";'
_LOAD = """(address) => new Promise((done) => {
  const made = document.createElement("script");
  made.src = address;
  made.onload = () => done("ran");
  made.onerror = () => done("refused");
  document.head.append(made);
})"""
_REGISTER = """(address) => navigator.serviceWorker.register(address).then(() => "registered", () => "refused")"""


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    body, type_ = (_CODE, "text/javascript") if ".js " in head else (_PAGE, "text/html")
    lines = ("HTTP/1.1 200 OK", f"Content-Type: {type_}", f"Content-Length: {len(body)}")
    hostile = ("Set-Cookie: session=stolen; Path=/", "Service-Worker-Allowed: /", "Connection: close")
    writer.write(("\r\n".join((*lines, *hostile)) + f"\r\n\r\n{body}").encode())
    await writer.drain()
    writer.close()


@asynccontextmanager
async def _proxied(world: Planet) -> AsyncGenerator[tuple[str, str]]:
    """Serve the API without a credential, as `kubectl proxy` does, with the pod's page."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    process = await world.start("proxy", "--port=0")
    assert process.stdout is not None
    try:
        found = re.search(rb"127\.0\.0\.1:\d+", await process.stdout.readline())
        assert found, "no address"
        port = server.sockets[0].getsockname()[1]
        origin = f"http://{found[0].decode()}"
        yield origin, f"{origin}/api/v1/namespaces/default/pods/web:{port}/proxy"
    finally:
        process.terminate()
        await process.wait()
        server.close()


def _visit(origin: str, pod: str) -> tuple[str, str, list[str], str, str]:
    with chromium.one_browser() as browser:
        page = browser.new_page()
        page.goto(f"{pod}/")
        shown, title = page.locator("body").inner_text(), page.title()
        cookies = [each.get("name", "") for each in page.context.cookies()]
        page.goto(f"{origin}/version")  # a page of the API's own origin
        return (
            shown.strip(),
            title,
            cookies,
            page.evaluate(_LOAD, f"{pod}/x.js"),
            page.evaluate(_REGISTER, f"{pod}/x.js"),
        )


async def test_a_page_of_a_pod_runs_no_script_keeps_no_cookie_and_lends_no_code(tmp_path: Path) -> None:
    async with planet(tmp_path) as world, _proxied(world) as (origin, pod):
        shown, title, cookies, script, worker = await asyncio.to_thread(_visit, origin, pod)
    assert (shown.startswith("before"), title) == (True, "page")
    assert cookies == []
    assert (script, worker) == ("refused", "refused")
