"""A hostile server: all texts contain markup, bidirectional and control characters."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Page, Route, WebSocketRoute

LONG = 10_000
HOSTILE = (
    '<img src=x onerror="document.title=1"><b>bold</b>\u202egnp.exe\u2066\u200b\ufeff\u0000\r\n\u0085'
    "\u001b]0;stolen\u0007\u001b]52;c;c3RvbGVu\u0007\u001b]8;;https://evil.example/\u0007link\u001b]8;;\u0007"
    f"{'x' * LONG}"
)
# Fields that the page uses as keys; the server allows only letters of names in them.
_KEYS = frozenset(("name", "namespace", "uid", "kind", "apiVersion", "resourceVersion", "continue"))
# No server validates these: everything in them is hostile, names too.
_FREE = frozenset(("involvedObject", "regarding", "related", "subjects"))
# Maps with keys of tenants.
_MAPS = frozenset(("labels", "annotations", "data", "matchLabels", "nodeSelector"))
# Paths that the page itself needs: kinds, schemas, rights.
_WAYS = re.compile(r"^/(apis?|openapi/.*|version|apis/authorization[^/]*/.*|apis/authentication[^/]*/.*)$")
_LOOK = """() => {
  const odd = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u2069\\ufeff]/;
  const typed = "input, textarea, .cm-editor, .xterm";  // keep what they are given, and show it as marks themselves
  const found = [];
  if (document.title !== "Tarmac") found.push("the title is " + document.title);
  if (window.copied.length) found.push("copied " + window.copied);
  for (const each of document.querySelectorAll("body *")) {
    const made = /^(IMG|B|IFRAME|SCRIPT)$/.test(each.tagName) && !each.closest(".screen, .cm-editor");
    if (made) found.push("an element " + each.tagName);
    if (each.closest(typed)) continue;
    for (const { name, value } of each.attributes) if (odd.test(value)) found.push(`${each.tagName} ${name}`);
    for (const node of each.childNodes) {
      if (node.nodeType === 3 && odd.test(node.data)) found.push(`text of ${each.outerHTML.slice(0, 80)}`);
    }
  }
  for (const each of document.querySelectorAll("a[href]")) {
    const to = new URL(each.getAttribute("href"), location.href);
    if (to.origin !== location.origin) found.push("a link to " + to.href.slice(0, 80));
  }
  if (document.documentElement.scrollWidth > innerWidth) {
    const out = (each) => each.getBoundingClientRect().right > innerWidth;
    const first = [...document.querySelectorAll("body *")].find(out);
    found.push("wider than the screen: " + first?.outerHTML.slice(0, 80));
  }
  return [...new Set(found)];
}"""
_NO_CLIPBOARD = """() => {
  window.copied = [];
  navigator.clipboard.writeText = (text) => { window.copied.push(text); return Promise.resolve(); };
}"""


def spoil(value: Any, free: bool = False) -> Any:
    """Return the value with hostile words in it; with `free`, in names too."""
    if isinstance(value, dict):
        return {key: _spoilt(key, each, free) for key, each in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, list):
        return [spoil(each, free) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value + HOSTILE if isinstance(value, str) and value else value


def _spoilt(key: str, value: Any, free: bool) -> Any:
    if key in _KEYS and not free:
        return value
    spoilt = spoil(value, free or key in _FREE)
    return {**spoilt, HOSTILE: HOSTILE} if key in _MAPS and isinstance(value, dict) else spoilt


def serve_hostile_words(page: Page) -> None:
    """Intercept requests to the API: lists, their changes, and single objects."""
    page.evaluate(_NO_CLIPBOARD)
    page.route(_is_asked, _answer)
    page.route_web_socket(lambda url: "watch=1" in url, _watch)


def serve_hostile_refusals(page: Page) -> None:
    """Reject every request, in hostile words."""
    page.evaluate(_NO_CLIPBOARD)
    causes = [{"field": HOSTILE, "message": HOSTILE, "reason": HOSTILE}]
    status = {"kind": "Status", "message": HOSTILE, "reason": HOSTILE, "details": {"causes": causes}, "code": 500}
    page.route(_is_asked, lambda route: route.fulfill(status=500, json=status, headers={"audit-id": "<b>x</b>"}))
    page.route_web_socket(lambda url: "watch=1" in url, lambda socket: socket.close(code=4000))


def harm(page: Page) -> list[str]:
    """Return effects and remains of hostile words in the page."""
    return page.evaluate(_LOOK)


def _is_asked(url: str) -> bool:
    path = urlsplit(url).path
    return path.startswith(("/api/", "/apis/")) and not _WAYS.match(path)


def _answer(route: Route) -> None:
    answer = route.fetch()
    text = answer.text()
    try:
        body = json.dumps(spoil(json.loads(text)))
    except ValueError:
        body = text + HOSTILE  # YAML
    route.fulfill(response=answer, body=body)


def _watch(socket: WebSocketRoute) -> None:
    server = socket.connect_to_server()
    server.on_message(lambda message: socket.send(json.dumps(_spoilt_event(json.loads(message)))))


def _spoilt_event(event: dict[str, Any]) -> dict[str, Any]:
    return {"type": event["type"], "object": spoil(event["object"])}
