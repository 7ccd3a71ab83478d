"""Messages about a session beside its output: JSON objects for programs, or lines in the output for people."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.base.clock import rfc3339

Notice = dict[str, Any]


def writer_of(user: str | None, since: float) -> Notice | None:
    """Return the owner of the keyboard, and the time since when."""
    return None if user is None else {"user": user, "since": rfc3339(since)}


def encoded(notice: Notice) -> bytes:
    """Encode a notice for programs."""
    return msgspec.json.encode(notice)


def in_words(notice: Notice) -> bytes:
    """Format a notice for people, on a line of its own; empty when it does not concern them."""
    parts = list(_sentences(notice))
    return f"\r\n[tarmac: {'; '.join(parts)}]\r\n".encode() if parts else b""


def _sentences(notice: Notice) -> list[str]:
    texts: list[str] = []
    if "recorded" in notice:
        texts.append("this session is recorded" if notice["recorded"] else "this session is not recorded")
    if "gap" in notice:
        texts.append(f"{notice['gap']} bytes are left out")
    if "keyboard" in notice:
        writer = notice.get("writer")
        if notice["keyboard"]:
            texts.append("you have the keyboard; Enter ~ . leaves")
        elif writer is not None:
            texts.append(f"{_plain(writer['user'])} has the keyboard since {writer['since'][11:16]}")
    return texts


def _plain(name: str) -> str:
    """Replace control characters: names come from certificates and tokens and must not control a user's terminal."""
    return "".join(each if each.isprintable() else "\ufffd" for each in name)
