"""An OpenID Connect issuer on loopback, in a thread: it signs any token, and misbehaves on request."""

from __future__ import annotations

import json
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tarmac.server.security.certificates.issuing import Authority
from tarmac.server.security.tokens.jwt import base64url

Page = tuple[int, dict[str, str], bytes]
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_HASHES: dict[str, hashes.HashAlgorithm] = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
RSA_KEY, OTHER_RSA_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))


class FakeIssuer:
    """An issuer with documents that may be changed at any time. `asked` counts requests by path."""

    def __init__(self, ca: str, port: int) -> None:
        self.url = f"https://127.0.0.1:{port}"
        self.ca = ca
        self.keys: dict[str, PrivateKey] = {"one": RSA_KEY}
        self.asked: dict[str, int] = {}
        self.up = True
        self.discovery: Callable[[], bytes] = self._discovery
        self.key_set: Callable[[], bytes] = self._key_set
        self.moment = 0.0  # no request is answered before this moment of the monotonic clock
        self.pages: Callable[[str, str, dict[str, str], bytes], Page | None] = lambda *_: None
        """Further pages by method, path with query, headers in lower case, and body."""

    def claims(self, **changed: Any) -> dict[str, Any]:
        """Return the claims of an ordinary token with changes; None removes a claim."""
        now = int(time.time())
        usual = {"iss": self.url, "aud": "tarmac", "sub": "jane", "exp": now + 600, "iat": now}
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    def token(self, header: dict[str, Any] | None = None, key: PrivateKey | None = None, **changed: Any) -> str:
        """Return an ordinary token with changes."""
        return signed({"alg": "RS256", "kid": "one", **(header or {})}, self.claims(**changed), key or RSA_KEY)

    def stay_silent(self, seconds: float) -> None:
        """Accept requests and delay the answers."""
        self.moment = time.monotonic() + seconds

    def answer(self, path: str) -> bytes | None:
        self.asked[path] = self.asked.get(path, 0) + 1
        while time.monotonic() < self.moment:
            time.sleep(0.02)
        if not self.up:
            return None
        return {"/.well-known/openid-configuration": self.discovery, "/keys": self.key_set}.get(path, bytes)()

    def _discovery(self) -> bytes:
        return json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()

    def _key_set(self) -> bytes:
        return json.dumps({"keys": [jwk(name, key) for name, key in self.keys.items()]}).encode()


@contextmanager
def fake_issuer(folder: Path) -> Generator[FakeIssuer]:
    """Serve until the block ends. Its authority is `ca.crt` in the folder."""
    pair = Authority.create("issuer-ca", time.time())
    serving = Authority(pair).issue_server("issuer", ["127.0.0.1"], time.time())
    (folder / "ca.crt").write_bytes(pair.certificate)
    (folder / "serving.pem").write_bytes(serving.certificate + serving.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "serving.pem")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = self._page() or self._document()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def _page(self) -> Page | None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            return issuer.pages(self.command, self.path, headers, body)

        def _document(self) -> Page:
            body = issuer.answer(self.path)
            return 503 if body is None else 200, {"Content-Type": "application/json"}, body or b""

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[Any, Any]:
            connection, address = super().get_request()
            # The handler makes the handshake: a client that connects and sends nothing does not block other clients.
            return context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # clients that give up

    socketserver.TCPServer.allow_reuse_address = True
    server = Quiet(("127.0.0.1", 0), Handler)
    issuer = FakeIssuer(pair.certificate.decode(), server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def signed(header: dict[str, Any], claims: object, key: PrivateKey | bytes) -> str:
    """A token in compact form, signed as its header says; with bytes, as HS256."""
    content = f"{base64url(json.dumps(header).encode())}.{base64url(json.dumps(claims).encode())}"
    return f"{content}.{base64url(_signature(str(header['alg']), content.encode(), key))}"


def _signature(algorithm: str, data: bytes, key: PrivateKey | bytes) -> bytes:
    if algorithm == "none":
        return b""
    if isinstance(key, bytes):
        import hmac

        return hmac.digest(key, data, "sha256")
    digest = _HASHES[algorithm[2:]]
    if isinstance(key, rsa.RSAPrivateKey):
        pss = padding.PSS(padding.MGF1(digest), padding.PSS.DIGEST_LENGTH)
        return key.sign(data, pss if algorithm.startswith("PS") else padding.PKCS1v15(), digest)
    size = (key.key_size + 7) // 8
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(digest)))
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def jwk(name: str, key: PrivateKey) -> dict[str, str]:
    """The public half as a JSON Web Key."""
    common = {"kid": name, "use": "sig"}
    if isinstance(key, rsa.RSAPrivateKey):
        numbers = key.public_key().public_numbers()
        return {**common, "kty": "RSA", "n": _number(numbers.n, 256), "e": _number(numbers.e, 3)}
    size, point = (key.key_size + 7) // 8, key.public_key().public_numbers()
    return {**common, "kty": "EC", "crv": f"P-{key.key_size}", "x": _number(point.x, size), "y": _number(point.y, size)}


def _number(value: int, size: int) -> str:
    return base64url(value.to_bytes(size, "big"))
