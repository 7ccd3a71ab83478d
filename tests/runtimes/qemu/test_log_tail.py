"""The end of a machine's log is kept, and the line with the cause of a panic."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.qemu.logtail import log_tail, panic_tail

WHY = "[   12.345678] Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b"
MOST = 2048


def trace(lines: int) -> str:
    return "".join(f"[   12.{number:06}]  do_exit+0x{number:x}/0xb10\r\n" for number in range(lines))


def said(folder: Path, text: str) -> Path:
    path = folder / "serial.raw"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("lines", [0, 10, 40, 200, 1000])
def test_the_reason_of_a_panic_is_kept_however_long_the_trace_after_it(tmp_path: Path, lines: int) -> None:
    words = panic_tail(said(tmp_path, f"booted\r\n{WHY}\r\n{trace(lines)}"))
    assert WHY in words.splitlines()
    assert len(words) <= MOST
    assert words.endswith(trace(lines).strip()[-500:])


def test_a_panic_that_says_so_at_its_end_is_told_by_its_end(tmp_path: Path) -> None:
    end = "---[ end Kernel panic - not syncing: VFS ]---"
    text = f"{WHY}\r\n{trace(100)}{end}\r\n"
    assert panic_tail(said(tmp_path, text)) == text.strip()[-MOST:]


def test_a_guest_decides_nothing_but_the_words(tmp_path: Path) -> None:
    for text in (
        "",
        "\0" * 100_000,
        "Kernel panic" * 20_000,
        f"Kernel panic {'x' * 70_000}\n{trace(200)}",
        "\xff\n" * 9,
    ):
        assert len(panic_tail(said(tmp_path, text))) <= MOST
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 400)
    assert len(panic_tail(tmp_path / "binary")) <= MOST
    assert panic_tail(tmp_path / "missing") == log_tail(tmp_path / "missing") == ""
