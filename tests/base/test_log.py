"""Each message is one line, for any values."""

from __future__ import annotations

import errno
import io
import json
from collections.abc import Iterator

import pytest

from tarmac.base.log import configure, log

ODD = [
    "two\nlines",
    "\x1b[2J\x1b[31m",
    "a\r2026-01-01T00:00:00Z ERROR server: all is lost",
    "\u2028",
    "\ud800",
    "\x00",
    "",
]


@pytest.fixture
def sink() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    yield stream
    configure()


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_value_begins_a_line_or_talks_to_a_terminal(as_json: bool, sink: io.StringIO) -> None:
    configure(as_json=as_json, stream=sink)
    for odd in ODD:
        log("test").info("a thing happened", value=odd, list=[odd])
    written = sink.getvalue()
    assert len(written.splitlines()) == len(ODD)
    assert written.replace("\n", "").isprintable()


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_of_a_long_value_both_ends_are_kept(as_json: bool, sink: io.StringIO) -> None:
    configure(as_json=as_json, stream=sink)
    log("test").error("a thing failed", path="a" + "x" * 1_000_000 + "z", parts=["y"] * 1_000_000, code=500)
    written = sink.getvalue()
    assert len(written) < 20_000
    assert "1000002" not in written
    assert "991810 characters" in written
    if as_json:
        line = json.loads(written)
        assert (line["path"][0], line["path"][-1], line["code"]) == ("a", "z", 500)


class FullDisk(io.StringIO):
    """The stream of a log on a disk without room."""

    def write(self, s: str, /) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("repeated", [False, True], ids=["log", "log and stderr"])
def test_a_log_line_on_a_full_disk_does_not_fail_its_caller(repeated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", FullDisk())
    configure(stream=FullDisk(), repeated=repeated)
    log("test").error("a thing failed")
    configure()
