"""What a session is told beside the output: for programs one JSON object each, for people a line in the output."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.base.clock import rfc3339

Notice = dict[str, Any]


def writer_of(user: str | None, since: float) -> Notice | None:
    """Who has the keyboard, and since when."""
    return None if user is None else {"user": user, "since": rfc3339(since)}


def encoded(notice: Notice) -> bytes:
    """For programs."""
    return msgspec.json.encode(notice)


def in_words(notice: Notice) -> bytes:
    """For people, on a line of its own; empty when it is nothing that they would ask about."""
    parts = list(_sentences(notice))
    return f"\r\n[tarmac: {'; '.join(parts)}]\r\n".encode() if parts else b""


def _sentences(notice: Notice) -> list[str]:
    said: list[str] = []
    if "recorded" in notice:
        said.append("this session is recorded" if notice["recorded"] else "this session is not recorded")
    if "gap" in notice:
        said.append(f"{notice['gap']} bytes are left out")
    if "keyboard" in notice:
        writer = notice.get("writer")
        if notice["keyboard"]:
            said.append("you have the keyboard; Enter ~ . leaves")
        elif writer is not None:
            said.append(f"{_plain(writer['user'])} has the keyboard since {writer['since'][11:16]}")
    return said


def _plain(name: str) -> str:
    """Names come from certificates and tokens: none of them may talk to the terminal of somebody else."""
    return "".join(each if each.isprintable() else "\ufffd" for each in name)
