"""Content of pods and nodes under the API server's origin: browsers give it no rights of that origin."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable

import aiohttp
import pytest
import yaml

from tests.server.streams.planet import Planet

Serve = Callable[[bytes], Awaitable[int]]
PODS = "/api/v1/namespaces/default/pods"
HOSTILE = (
    *("Set-Cookie: a=b; Path=/", "Set-Cookie2: a=b", "Service-Worker-Allowed: /", 'Clear-Site-Data: "*"'),
    *("Strict-Transport-Security: max-age=1", "Public-Key-Pins: x", "Refresh: 0; url=/", 'Alt-Svc: h2="evil.example"'),
    *("NEL: {}", "Report-To: {}", "Reporting-Endpoints: a", 'WWW-Authenticate: Basic realm="API"', "Expect-CT: x"),
    *("Accept-CH: Sec-CH-UA", 'Speculation-Rules: "/rules.json"', 'Use-As-Dictionary: match="/api/*"', "Link: </x>"),
    *("Origin-Agent-Cluster: ?1", "Critical-CH: a", "Activate-Storage-Access: load", "Invented-Tomorrow: yes"),
    *("Access-Control-Allow-Origin: https://evil.example", "Access-Control-Allow-Credentials: true"),
)


@pytest.fixture
async def serve() -> AsyncGenerator[Serve]:
    """Start a server in the pod that sends one response to every request, with its own port for `{port}`."""
    servers: list[asyncio.Server] = []

    async def begin(answer: bytes) -> int:
        async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            port = writer.get_extra_info("sockname")[1]
            writer.write(answer.replace(b"{port}", str(port).encode()))
            await writer.drain()
            writer.close()

        servers.append(await asyncio.start_server(told, "127.0.0.1", 0))
        return servers[-1].sockets[0].getsockname()[1]

    yield begin
    for each in servers:
        each.close()


def answer(*headers: str, status: str = "200 OK", body: str = "<script>alert(1)</script>") -> bytes:
    lines = (f"HTTP/1.1 {status}", "Content-Type: text/html", f"Content-Length: {len(body)}", *headers)
    return ("\r\n".join(lines) + f"\r\n\r\n{body}").encode()


async def get(world: Planet, path: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Send a request as the administrator, whose browser has the certificate; return status, headers and body."""
    context = ssl.create_default_context(cafile=str(world.pki.ca_file))
    user = yaml.safe_load(world.kubeconfig.read_text())["users"][0]["user"]
    for name in ("certificate", "key"):
        (world.home / name).write_bytes(base64.b64decode(user[f"client-{name}-data"]))
    context.load_cert_chain(world.home / "certificate", world.home / "key")
    made = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as web,
        web.get(f"{world.running.url}{path}", ssl=context, headers=made, allow_redirects=False) as reply,
    ):
        return reply.status, {name.lower(): value for name, value in reply.headers.items()}, await reply.text()


async def test_headers_of_a_pod_that_act_on_the_whole_origin_are_dropped(world: Planet, serve: Serve) -> None:
    port = await serve(answer(*HOSTILE, "X-Own: yes", "Content-Security-Policy: img-src 'none'"))
    status, headers, body = await get(world, f"{PODS}/web:{port}/proxy/")
    assert (status, body, headers["x-own"]) == (200, "<script>alert(1)</script>", "yes")
    assert [each for each in HOSTILE if each.partition(":")[0].lower() in headers] == []


async def test_documents_of_pods_are_sandboxed_and_not_sniffed(world: Planet, serve: Serve) -> None:
    port = await serve(answer(status="404 Not Found"))
    status, headers, _ = await get(world, f"{PODS}/web:{port}/proxy/")
    assert status == 404
    assert (headers["content-security-policy"], headers["x-content-type-options"]) == ("sandbox", "nosniff")


@pytest.mark.parametrize("path", ["/api/v1/nodes/n1/proxy/pods", f"{PODS}/web/log"])
async def test_answers_of_nodes_and_logs_are_sandboxed_and_not_sniffed(world: Planet, path: str) -> None:
    (world.pods.logs / "1.log").write_text("2026-11-17T06:00:00Z stdout F <script>alert(1)</script>\n")
    status, headers, _ = await get(world, path)
    assert status == 200
    assert (headers["content-security-policy"], headers["x-content-type-options"]) == ("sandbox", "nosniff")


@pytest.mark.parametrize(
    "headers",
    [
        {"Service_Worker": "script"},
        *(
            {"Sec_Fetch_Dest": each}
            for each in ("script", "Script", "serviceworker", "worker", "sharedworker", "style")
        ),
    ],
)
async def test_code_of_a_pod_is_not_given_to_pages_of_the_server(
    world: Planet, serve: Serve, headers: dict[str, str]
) -> None:
    port = await serve(answer())
    status, _, body = await get(world, f"{PODS}/web:{port}/proxy/sw.js", **headers)
    assert status == 403
    assert "use `kubectl port-forward`" in body
    assert "alert" not in body


@pytest.mark.parametrize(
    ("location", "seen"),
    [
        ("/dashboard/?a=b#c", "{at}/dashboard/?a=b#c"),
        ("http://127.0.0.1:{port}/x", "{at}/x"),
        ("next", "next"),
        ("https://example.com/x", "https://example.com/x"),
        ("http://[", "http://["),
    ],
)
async def test_a_redirect_of_a_pod_to_its_own_path_stays_with_the_pod(
    world: Planet, serve: Serve, location: str, seen: str
) -> None:
    port = await serve(answer(f"Location: {location}", status="302 Found", body=""))
    at = f"{PODS}/web:{port}/proxy"
    _, headers, _ = await get(world, f"{at}/")
    assert headers["location"] == seen.format(at=at)
