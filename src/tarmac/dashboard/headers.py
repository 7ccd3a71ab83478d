"""What a browser is told about the page: which scripts and styles it may run, and that nobody may frame or sniff it.

Scripts come from the server alone, and none of them may turn text into markup (trusted types with no policy at all).
Styles that scripts make need the nonce of this one answer; terminals and editors make some.
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
"""For files whose names change with what is in them."""
_NEVER = ("Cache-Control", "no-store")


def page_headers(nonce: str = "") -> Headers:
    """For a document: kept nowhere, since its nonce is good once."""
    return [("Content-Security-Policy", _policy(nonce)), *_ALWAYS, _NEVER]


def file_headers() -> Headers:
    """For a file with a hash in its name."""
    return [("Content-Security-Policy", _policy("")), *_ALWAYS, FOREVER]


def _policy(nonce: str) -> str:
    styles = f"'self' 'nonce-{nonce}'" if nonce else "'self'"
    return (
        f"default-src 'none'; script-src 'self'; style-src {styles}; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
