"""Rejections: a page for people, a Status for programs."""

from __future__ import annotations

from html import escape

from tarmac.api.status import ApiError
from tarmac.dashboard.headers import page_headers
from tarmac.http.messages import Request, Response

HTML = "text/html; charset=utf-8"


def refusal(request: Request, status: int, title: str, text: str) -> Response:
    """Return a page with instructions if a browser opens the address, else a Status."""
    if "text/html" in request.headers.get("accept", ""):
        return page(status, title, text)
    error = ApiError(f"{title}: {text}", reason="", code=status)
    return Response(status, error.encoded(), headers=page_headers())


def page(status: int, title: str, text: str, headers: list[tuple[str, str]] | None = None) -> Response:
    """Return a page that states the problem and the remedy."""
    body = (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<h1>{escape(title)}</h1><p>{escape(text)}</p></html>"
    )
    return Response(status, body.encode(), HTML, [*page_headers(), *(headers or [])])
