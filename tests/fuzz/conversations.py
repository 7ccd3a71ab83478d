"""Bytes from clients of a node: upgrades followed by damaged frames, and damaged DNS packets."""

from __future__ import annotations

import json
import random
import struct
from typing import NamedTuple

from tarmac.wire.channels import PORT_FORWARD_V1, TUNNELLED_SPDY, V4, V5
from tarmac.wire.spdy import SpdySession
from tarmac.wire.spdy.frames import ControlFrameType, control_frame
from tests.agent.dns.asking import TYPES, ask
from tests.fuzz.mutations import damaged

_WEBSOCKET = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a2V5\r\n"
_SPDY = "Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n"
_EXEC = "/exec/default/web/main?command=cat&input=1&output=1"
_FORWARD = "/portForward/default/web"
_CONTROLS = [
    bytes.fromhex("80 03 00 04 00 ff ff ff ff ff ff ff"),
    control_frame(ControlFrameType.SETTINGS, struct.pack(">III", 1, 4, 100)),
    control_frame(ControlFrameType.PING, struct.pack(">I", 1)),
    control_frame(ControlFrameType.WINDOW_UPDATE, struct.pack(">II", 1, 65536)),
    control_frame(ControlFrameType.GOAWAY, struct.pack(">II", 0, 0)),
    control_frame(ControlFrameType.RST_STREAM, struct.pack(">II", 1, 5)),
    control_frame(ControlFrameType.HEADERS, struct.pack(">I", 1)),
]


class Conversation(NamedTuple):
    """The head of an upgrade, and the frames after it."""

    head: bytes
    frames: list[bytes]


def conversation(seed: int, number: int) -> Conversation:
    """Return the conversation of a number."""
    dice = random.Random(f"{seed}/frames/{number}")
    kind, path, protocol = dice.choice(
        [
            ("spdy", _EXEC, V4),
            ("spdy", f"{_EXEC}&tty=1", V4),
            ("spdy", "/attach/default/term/main?input=1&output=1", V4),
            ("spdy", _FORWARD, PORT_FORWARD_V1),
            ("channels", _EXEC, V5),
            ("channels", f"{_EXEC}&tty=1", V5),
            ("channels", "/attach/default/web/main?output=1", V4),
            ("channels", f"{_FORWARD}?port=80&port=81", V4),
            ("tunnelled", _FORWARD, TUNNELLED_SPDY),
        ]
    )
    if kind == "spdy":
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\n{_SPDY}X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        frames = _spdy(path, dice)
    else:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\n{_WEBSOCKET}Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
        inner = _spdy(path, dice) if kind == "tunnelled" else _messages(dice)
        frames = [_websocket(each, dice) for each in inner]
    damage = [damaged(each, dice) if dice.random() < 0.5 else each for each in frames]
    return Conversation(head.encode(), damage)


def _spdy(path: str, dice: random.Random) -> list[bytes]:
    session, frames, streams = SpdySession(server=False), list[bytes](), list[int]()
    names = ["error", "data"] if "Forward" in path else ["error", "stdin", "stdout", "stderr", "resize"]
    for name in dice.sample(names, dice.randint(1, len(names))) if dice.random() < 0.3 else names:
        streams.append(session.open({"streamtype": name, "port": "80", "requestid": str(dice.randrange(3))}))
        frames.append(session.take())
    for _ in range(dice.randint(2, 10)):
        if dice.random() < 0.4:
            frames.append(dice.choice(_CONTROLS))
            continue
        session.send(dice.choice(streams), _said(dice), fin=dice.random() < 0.1)
        frames.append(session.take())
    return frames


def _messages(dice: random.Random) -> list[bytes]:
    return [bytes((dice.choice([0, 0, 1, 3, 4, 255, 77]),)) + _said(dice) for _ in range(dice.randint(4, 14))]


def _said(dice: random.Random) -> bytes:
    size = json.dumps({"Width": dice.choice([80, -1, 1 << 40]), "Height": 24}).encode()
    return dice.choice([b"hello", size, size[:10], b"\x00", b"", dice.randbytes(300), b"9" * 3000])


def _websocket(payload: bytes, dice: random.Random) -> bytes:
    opcode = dice.choice([2, 2, 2, 2, 1, 0, 8, 9, 10]) | (0x80 if dice.random() < 0.9 else 0)
    length = len(payload)
    head = struct.pack(">BB", opcode, 0x80 | length) if length < 126 else struct.pack(">BBH", opcode, 0xFE, length)
    mask = dice.randbytes(4)
    return head + mask + bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


_ASKED = [
    *(f"{each}.default.svc.cluster.local" for each in ("web", "many", "_http._tcp.many", "e7.many", "outside", "none")),
    "9.0.96.10.in-addr.arpa",
    "",
    "x." * 100,
]


def packet(seed: int, number: int) -> bytes:
    """Return the DNS packet of a number."""
    dice = random.Random(f"{seed}/packets/{number}")
    made = ask(
        dice.choice(_ASKED), dice.choice(list(TYPES)), dice.randrange(0x7000), dice.choice([0, 512, 1232, 65535])
    )
    if dice.random() < 0.1:
        made += b"".join(struct.pack("!HHHIH", 0xC00C, 16, 1, 0, 0) for _ in range(dice.randrange(200)))
        made = made[:10] + struct.pack("!H", dice.choice([1, 200, 65535])) + made[12:]
    return damaged(made, dice, 3) if dice.random() < 0.8 else made
