"""A disk of files, read by a reader of ISO 9660 with Rock Ridge: names, content and modes are equal."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarmac.runtimes.interface import RuntimeRefused
from tarmac.runtimes.qemu.filedisks import VOLUME_BYTES, volume_files, volume_label
from tarmac.runtimes.qemu.iso import SECTOR, IsoFile, IsoTooLarge, iso_image

LARGEST = 1 << 20


def found(image: bytes) -> dict[str, tuple[bytes, int]]:
    """All files of a disk, as the kernel's reader walks it."""
    root = image[16 * SECTOR + 156 :][:34]
    return dict(_walk(image, *_place(root), ""))


def _place(record: bytes) -> tuple[int, int]:
    return struct.unpack_from("<I", record, 2)[0], struct.unpack_from("<I", record, 10)[0]


def _walk(image: bytes, sector: int, size: int, above: str) -> Iterator[tuple[str, tuple[bytes, int]]]:
    content, at, entries = image[sector * SECTOR :][:size], 0, 0
    while at < size:
        length = content[at]
        if not length:
            at += SECTOR - at % SECTOR
            continue
        record = content[at : at + length]
        at += length
        entries += 1
        if entries <= 2:
            continue
        fields = _rock_ridge(record)
        name, mode = fields["NM"][1:].decode(), struct.unpack_from("<I", fields["PX"])[0]
        begins, many = _place(record)
        if record[25] & 2:
            yield from _walk(image, begins, many, f"{above}{name}/")
        else:
            yield f"{above}{name}", (image[begins * SECTOR :][:many], mode & 0o777)


def _rock_ridge(record: bytes) -> dict[str, bytes]:
    at = 33 + record[32] + (1 - record[32] % 2)
    fields: dict[str, bytes] = {}
    while at + 4 <= len(record):
        fields[record[at : at + 2].decode()] = record[at + 4 : at + record[at + 2]]
        at += record[at + 2]
    return fields


def test_files_are_found_again_by_name_content_and_mode() -> None:
    files = {
        "user-data": IsoFile(b"#cloud-config\n"),
        "empty": IsoFile(b"", 0o644),
        "deep/down/here": IsoFile(b"x" * 5000, 0o440),
        **{f"many/with-a-name-that-is-long-{number}": IsoFile(b"%d" % number) for number in range(100)},
    }
    image = iso_image("cidata", files, LARGEST)
    assert found(image) == {name: (each.content, each.mode) for name, each in files.items()}
    assert len(image) % SECTOR == 0
    assert image[16 * SECTOR + 40 :][:32].rstrip() == b"cidata"


def test_the_same_files_make_the_same_bytes() -> None:
    files = {name: IsoFile(name.encode()) for name in ("b", "a", "c/d")}
    assert iso_image("x", files, LARGEST) == iso_image("x", dict(reversed(files.items())), LARGEST)


@pytest.mark.parametrize("files", [{"a": IsoFile(bytes(101))}, {"n" * 200: IsoFile(b"")}], ids=["bytes", "name"])
def test_files_that_exceed_a_limit_are_refused(files: dict[str, IsoFile]) -> None:
    with pytest.raises(IsoTooLarge):
        iso_image("x", files, 100)


def test_a_volume_shows_its_keys_and_not_what_its_driver_keeps(tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    (folder / "..1" / "sub").mkdir(parents=True)
    (folder / "..1" / "key").write_text("value")
    (folder / "..1" / "sub" / "inner").write_text("more")
    (folder / "..data").symlink_to("..1")
    (folder / "key").symlink_to("..data/key")
    (folder / "sub").symlink_to("..data/sub")
    assert {name: each.content for name, each in volume_files(folder).items()} == {
        "key": b"value",
        "sub/inner": b"more",
    }
    assert volume_label("my-long-settings-of-the-app") == "MY_LONG_SETTINGS"


def test_a_link_out_of_a_volume_and_one_that_is_too_large_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "key").symlink_to("/etc/passwd")
    with pytest.raises(RuntimeRefused, match="leads out"):
        volume_files(folder)
    (folder / "key").unlink()
    (folder / "key").write_bytes(bytes(VOLUME_BYTES + 1))
    with pytest.raises(RuntimeRefused, match="over 8388608 bytes"):
        volume_files(folder)
