"""Security headers of the page: allowed scripts and styles, no framing, no content sniffing.

Scripts come from the server alone, and none of them may turn text into markup (trusted types with no policy at all).
Styles created by scripts need the nonce of this response; terminals and editors create some.
"""

from __future__ import annotations

Headers = list[tuple[str, str]]

_ALWAYS: Headers = [
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
]
FOREVER = ("Cache-Control", "public, max-age=31536000, immutable")
"""For files with a hash of their content in the name."""
_NEVER = ("Cache-Control", "no-store")


def page_headers(nonce: str = "") -> Headers:
    """Return the headers of a document. It must not be cached, since its nonce is valid once."""
    return [("Content-Security-Policy", _policy(nonce)), *_ALWAYS, _NEVER]


def file_headers() -> Headers:
    """Return the headers of a file with a hash in its name."""
    return [("Content-Security-Policy", _policy("")), *_ALWAYS, FOREVER]


def _policy(nonce: str) -> str:
    styles = f"'self' 'nonce-{nonce}'" if nonce else "'self'"
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
