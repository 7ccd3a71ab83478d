"""Guests of a few bytes, for tests of machines that need no operating system: one sector that the firmware boots.

They write to the serial port and know the power button, by the registers that the firmware of QEMU's board sets up:
status and enable bits of the button at 0x600 and 0x602, sleep control at 0x604.
"""

from __future__ import annotations

import struct
from typing import Literal

SECTOR = 512
_SERIAL, _STATUS, _ENABLE, _CONTROL = 0x3F8, 0x600, 0x602, 0x604
_ORIGIN = 0x7C00

Behaviour = Literal["waits", "deaf", "ends", "counts", "echoes", "ticks", "sleeps"]
"""Behaviour of a guest.

- `waits`: ends when the power button is pressed
- `deaf`: ignores the power button
- `ends`: ends at once
- `counts`: writes bytes without end, each one more than the last
- `echoes`: writes back the bytes that it reads
- `ticks`: writes a line with its number, in hex, eighteen times a second, until the power button is pressed
- `sleeps`: waits for the power button without using the processor
"""


def boot_sector(behaviour: Behaviour, says: str) -> bytes:
    """Return a sector that writes a line and then behaves as given."""
    text = says.encode() + b"\r\n\0"
    body = {
        "waits": _wait_for_button() + _power_off(),
        "deaf": b"\xf4\xeb\xfd",  # hlt, again and again
        "ends": _power_off(),
        # wait until the port takes a byte; write bl; one more; again
        "counts": bytes.fromhex("bafd03eca82074f8baf80388d8eefec3ebee"),
        # wait until there is a byte; read it; write it; again
        "echoes": bytes.fromhex("bafd03eca80174f8baf803eceeebf1"),
        "ticks": _tick() + _power_off(),
        # sti; hlt; in ax, 0x600; test ah, 1; jz back
        "sleeps": _enable_button() + bytes.fromhex("fbf4ba0006edf6c40174f5") + _power_off(),
    }[behaviour]
    say = bytes.fromhex("fa31c08ed8") + b"\xbe\0\0"  # cli; ds = 0; si = text
    say += b"\xba" + struct.pack("<H", _SERIAL) + bytes.fromhex("ac84c07403eeebf8")  # out each byte until the zero
    code = bytearray(say + body)
    code[6:8] = struct.pack("<H", _ORIGIN + len(code))
    return (bytes(code) + text).ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def _enable_button() -> bytes:
    return b"\xba" + struct.pack("<H", _ENABLE) + b"\xb8\x00\x01\xef"  # out 0x602, 0x100


def _tick() -> bytes:
    """The firmware's clock wakes it, so that many of them cost little; falls through when the button is pressed."""
    asleep = bytes.fromhex("6631db fbf4 ba0006ed f6c401 7530")  # ebx = 0; sti; hlt; pressed? then out of here
    digits = bytes.fromhex("b108 66c1c304 88d8240f 3c0a1c692f e80d00 fec975ec")  # the eight of ebx
    end = bytes.fromhex("b00ae80400 6643 ebd6")  # a line feed; one more; again
    put = bytes.fromhex("88c4 bafd03 eca82074fb 88e0 baf803eec3")  # wait until the port takes al; write it; return
    return _enable_button() + asleep + digits + end + put


def _wait_for_button() -> bytes:
    # in ax, 0x600; test ah, 1; jz back
    return _enable_button() + b"\xba" + struct.pack("<H", _STATUS) + b"\xed\xf6\xc4\x01\x74\xfa"


def _power_off() -> bytes:
    return b"\xba" + struct.pack("<H", _CONTROL) + b"\xb8\x00\x20\xef\xf4\xeb\xfd"
