"""TLS contexts. The server's: 1.2 and later, HTTP/1.1 only, client certificates optional."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path


def server_context(certificate: Path, key: Path, client_ca: Path | None = None) -> ssl.SSLContext:
    """Return a context for `listener.serve`. A client certificate, if one is sent, must be signed by `client_ca`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(certificate, key)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(client_ca)
    return context


def present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load the client certificate and key, both PEM. Raises SSLError."""
    # The TLS library takes these from a file only: a private temporary one.
    with tempfile.NamedTemporaryFile() as file:
        file.write(certificate + b"\n" + key)
        file.flush()
        context.load_cert_chain(file.name)
