"""A flood of SYNs from forged clients: `python -m benchmarks.flood HARDWARE ADDRESS PORT RATE`, until it is ended.

Frames are made beforehand and handed to the kernel by hundreds. It prints once a second how many it sent per second:
the sender's CPU does the work of every namespace that a frame passes, so a small machine sends fewer than asked.
"""

from __future__ import annotations

import ctypes
import socket
import struct
import sys
from time import perf_counter, sleep

FLOWS = 65_536
"""Different clients and source ports: the most entries that the flood can leave."""
_BATCH = 500
_CLIENTS = "198.51.100.0"
_INTERFACE = "eth0"


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("pieces", ctypes.POINTER(_Piece)),
        ("count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
        ("sent", ctypes.c_uint),
    )


def frame(hardware: str, own: bytes, flow: int, address: str, port: int) -> bytes:
    """Encode the SYN of one client."""
    client = struct.pack(">I", int.from_bytes(socket.inet_aton(_CLIENTS)) + 1 + flow % 250)
    ends = client + socket.inet_aton(address)
    segment = struct.pack(">HHIIBBHHH", 1024 + flow // 250 % 60_000, port, flow, 0, 5 << 4, 2, 1000, 0, 0)
    pseudo = ends + struct.pack(">HH", socket.IPPROTO_TCP, len(segment))
    segment = segment[:16] + _checksum(pseudo + segment) + segment[18:]
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, socket.IPPROTO_TCP, 0) + ends
    header = header[:10] + _checksum(header) + header[12:]
    return bytes.fromhex(hardware.replace(":", "")) + own + b"\x08\x00" + header + segment


def main() -> None:
    """Send at the rate until the process is ended."""
    hardware, address, port, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    send = ctypes.CDLL(None, use_errno=True).sendmmsg
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((_INTERFACE, 0))
        own = wire.getsockname()[4][:6]
        frames = [frame(hardware, own, flow, address, port) for flow in range(FLOWS)]
        batches = [_batch(frames[start : start + _BATCH]) for start in range(0, FLOWS - _BATCH, _BATCH)]
        print("ready", flush=True)
        _keep_sending(wire.fileno(), send, batches, rate)


def _keep_sending(descriptor: int, send: ctypes._NamedFuncPointer, batches: list[ctypes.Array[_Message]], rate: int):
    began, sent, told = perf_counter(), 0, 1.0
    while True:
        for batch in batches:
            sent += max(0, send(descriptor, batch, len(batch), 0))
            while (ahead := sent / rate - (perf_counter() - began)) > 0:
                sleep(ahead)
            if (passed := perf_counter() - began) > told:
                print(sent / passed, flush=True)
                told = passed + 1.0


def _batch(frames: list[bytes]) -> ctypes.Array[_Message]:
    made = (_Message * len(frames))()
    for message, each in zip(made, frames, strict=True):
        message.pieces, message.count = ctypes.pointer(_Piece(each, len(each))), 1
    return made


def _checksum(data: bytes) -> bytes:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack(">H", ~total & 0xFFFF)


if __name__ == "__main__":
    main()
