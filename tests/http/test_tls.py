"""TLS connections, and the certificate that the handler sees."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography import x509

from tarmac.base.clock import SystemClock
from tarmac.http.messages import Request, Response
from tarmac.server.security.certificates.issuing import KeyPair
from tarmac.server.security.certificates.pki import Pki
from tests.http.conftest import Server, read_answer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(params=["tls", "tls-accelerated"])
async def tls_server(request: pytest.FixtureRequest, pki: Pki):
    if request.param == "tls-accelerated":
        pytest.importorskip("aiofastnet", reason="the TLS accelerator (extra `fast`) is not installed")
    started = Server(request.param, pki)
    yield started
    await started.close()


def files(directory: Path, pair: KeyPair) -> tuple[Path, Path]:
    certificate, key = directory / "client.crt", directory / "client.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


async def test_a_client_certificate_reaches_the_handler(tls_server: Server, pki: Pki, tmp_path: Path) -> None:
    seen: list[bytes | None] = []

    def keep(request: Request) -> Response:
        seen.append(request.peer_certificate)
        return Response(200)

    await tls_server.start(keep)
    reader, writer = await tls_server.connect(certificate=files(tmp_path, pki.admin()))
    for _ in range(2):
        writer.write(GET)
        await read_answer(reader)
    assert seen[0] is not None
    assert seen[0] is seen[1]
    subject = x509.load_der_x509_certificate(seen[0]).subject.rfc4514_string()
    assert subject == "CN=kubernetes-admin,O=system:masters"


async def test_a_client_certificate_is_optional(tls_server: Server) -> None:
    await tls_server.start(lambda request: Response(200, b"%r" % request.peer_certificate))
    reader, writer = await tls_server.connect()
    writer.write(GET)
    assert (await read_answer(reader))[2] == b"None"


async def test_a_certificate_of_another_authority_is_refused(tls_server: Server, tmp_path: Path) -> None:
    await tls_server.start(lambda request: Response(200))
    stranger = Pki(tmp_path / "other", SystemClock()).admin()

    async def talk() -> None:
        reader, writer = await tls_server.connect(certificate=files(tmp_path, stranger))
        writer.write(GET)
        await read_answer(reader)

    with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
        await talk()


async def test_only_http_1_1_and_modern_tls_are_offered(tls_server: Server) -> None:
    await tls_server.start(lambda request: Response(200))
    context = tls_server.client_context()
    assert context is not None
    context.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", tls_server.port, ssl=context)
    session = writer.get_extra_info("ssl_object")
    assert session.selected_alpn_protocol() == "http/1.1"
    assert session.version() == "TLSv1.3"
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_never_shakes_hands_is_dropped(tls_server: Server) -> None:
    from tarmac.http.limits import ListenerLimits

    await tls_server.start(lambda request: Response(200), ListenerLimits(handshake_time=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", tls_server.port)
    assert await asyncio.wait_for(reader.read(), 3) == b""
    writer.close()


async def test_clients_without_tls_are_not_logged(tls_server: Server, caplog: pytest.LogCaptureFixture) -> None:
    await tls_server.start(lambda _: Response(200))
    for nonsense in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x00\x01", b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", tls_server.port)
        writer.write(nonsense)
        writer.write_eof()
        with suppress(ConnectionError):
            await reader.read()
        writer.close()
    assert [record.name for record in caplog.records] == []
