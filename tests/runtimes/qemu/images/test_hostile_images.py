"""An image matches its catalogue entry or is rejected, and no image brings another file of the host into a disk."""

from __future__ import annotations

import gzip
import hashlib
import os
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.api.compute.machineimage import ImageSource, MachineImageSpec
from tarmac.base.clock import SystemClock
from tarmac.base.quantity import Quantity
from tarmac.runtimes.interface import ImageMismatch, ImageRefused
from tarmac.runtimes.qemu.images import convert
from tarmac.runtimes.qemu.images.convert import USER, run_jailed
from tarmac.runtimes.qemu.images.getting import ImageFiles
from tarmac.runtimes.qemu.images.guard import TenantNetworks

pytestmark = [pytest.mark.root]
SECRET = b"root:x:0:0: what only the host knows\n"
MIB = 1 << 20


class Node:
    """A node with a folder of images and, outside of it, a file that no guest may ever read."""

    def __init__(self, folder: Path) -> None:
        self.local, self.kept, self.secret = folder / "local", folder / "kept", folder / "secret"
        self.local.mkdir()
        self.kept.mkdir(mode=0o700)
        self.secret.write_bytes(SECRET * 4000)
        self.secret.chmod(0o644)

    def get(self, name: str, format: str = "qcow2", compression: str | None = None, checksum: str = "") -> bytes:
        """Return the disk made from a file of the folder."""
        path = self.local / name
        content = path.read_bytes() if path.is_file() else b""
        spec = MachineImageSpec(
            size=Quantity.parse("16Mi"),
            format=format,  # pyright: ignore[reportArgumentType]
            compression=compression,  # pyright: ignore[reportArgumentType]
            source=ImageSource(file=name),
            checksum=checksum or f"sha256:{hashlib.sha256(content).hexdigest()}",
        )
        files = ImageFiles(self.kept, self.local, TenantNetworks(), SystemClock())
        record = files.get("acme/os", spec, lambda *_: None)
        assert all(each.is_there() for each in record.files())
        return Path(record.disk.path).read_bytes()

    def leaked(self) -> list[str]:
        """Return files with the secret, except for the original."""
        return [path.name for path in self.kept.iterdir() if path.is_file() and SECRET in path.read_bytes()]


@pytest.fixture
def node(tmp_path: Path) -> Node:
    tmp_path.chmod(0o755)
    return Node(tmp_path)


def qemu_img(*words: str | Path) -> None:
    subprocess.run(["qemu-img", *map(str, words)], check=True, capture_output=True)


def backing(node: Node, path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", "-b", node.secret, "-F", "raw", path, "1M")


def data_file(node: Node, path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", "-o", f"data_file={node.local / 'data'},data_file_raw=on", path, "1M")
    content = bytearray(path.read_bytes())
    content = content.replace(
        str(node.local / "data").encode(), str(node.secret).encode().ljust(len(str(node.local / "data")), b"\0")
    )
    path.write_bytes(content)


def encrypted(node: Node, path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", path, "1M")
    with path.open("r+b") as file:
        file.seek(32)
        file.write(struct.pack(">I", 2))  # LUKS


def too_large(node: Node, path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", path, "17M")


def unknown_feature(node: Node, path: Path) -> None:
    qemu_img("create", "-q", "-f", "qcow2", path, "1M")
    with path.open("r+b") as file:
        file.seek(72)
        file.write(struct.pack(">Q", 1 << 40))


def another_format(node: Node, path: Path) -> None:
    extent = f'RW 200 FLAT "{node.secret}" 0'
    descriptor = f'# Disk DescriptorFile\nversion=1\nCID=1\nparentCID=ffffffff\ncreateType="monolithicFlat"\n{extent}\n'
    path.write_text(descriptor)


REFUSED: list[tuple[Callable[[Node, Path], None], str]] = [
    (backing, "has a backing file"),
    (data_file, "data in another file"),
    (encrypted, "is encrypted"),
    (too_large, "17825792 bytes, and spec.size is 16777216"),
    (unknown_feature, "features that are not known"),
    (another_format, "not a qcow2 image"),
]


@pytest.mark.parametrize(("make", "why"), REFUSED)
def test_a_file_that_would_have_others_read_is_refused(
    node: Node, make: Callable[[Node, Path], None], why: str
) -> None:
    make(node, node.local / "disk")
    with pytest.raises(ImageMismatch, match=why):
        node.get("disk")
    assert os.listdir(node.kept) == []


def test_the_same_file_would_have_leaked(node: Node, tmp_path: Path) -> None:
    """The attack of these tests is real: QEMU's tool does read the file, when it runs without protection."""
    backing(node, node.local / "disk")
    another_format(node, node.local / "text")
    for name in ("disk", "text"):
        qemu_img("convert", "-O", "raw", node.local / name, tmp_path / f"{name}.raw")
        assert SECRET in (tmp_path / f"{name}.raw").read_bytes()


@pytest.mark.parametrize("make", [backing, another_format])
def test_said_to_be_raw_it_is_taken_as_it_is_and_nothing_is_followed(
    node: Node, make: Callable[[Node, Path], None]
) -> None:
    make(node, node.local / "disk")
    (node.local / "packed").write_bytes(gzip.compress((node.local / "disk").read_bytes()))
    assert node.get("disk", "raw") == (node.local / "disk").read_bytes()
    assert node.get("packed", "raw", "gzip").rstrip(b"\0") == (node.local / "disk").read_bytes().rstrip(b"\0")
    assert node.leaked() == []


def test_a_good_image_becomes_its_disk(node: Node) -> None:
    (node.local / "plain").write_bytes(b"boot" * 1000 + bytes(4 * MIB))
    qemu_img("convert", "-O", "qcow2", "-c", "-o", "compression_type=zstd", node.local / "plain", node.local / "disk")
    (node.local / "disk").chmod(0o600)  # an administrator's file, which the converter may not open
    disk = node.get("disk")
    assert disk.rstrip(b"\0") == b"boot" * 1000
    [kept] = node.kept.glob("*.raw")
    found = kept.stat()
    assert (found.st_mode & 0o7777, found.st_uid) == (0o444, 0)
    assert found.st_blocks * 512 < MIB
    assert (node.local / "disk").stat().st_mode & 0o7777 == 0o600


@pytest.mark.parametrize("compression", ["gzip", "xz", "zstd"])
def test_packed_files_are_unpacked_while_counting(node: Node, compression: str) -> None:
    (node.local / "plain").write_bytes(b"boot" + bytes(MIB))
    (node.local / "bomb").write_bytes(bytes(64 * MIB))
    (node.local / "cut").write_bytes(os.urandom(MIB))
    for name in ("plain", "bomb", "cut"):
        packed = subprocess.run([compression, "-c", node.local / name], capture_output=True, check=True).stdout
        (node.local / f"{name}.packed").write_bytes(packed[: len(packed) // 2] if name == "cut" else packed)
    assert node.get("plain.packed", "raw", compression)[:4] == b"boot"
    with pytest.raises(ImageMismatch, match=r"unpacked, the file has more than .* spec.size is 16777216"):
        node.get("bomb.packed", "raw", compression)
    with pytest.raises(ImageMismatch, match="cannot be unpacked"):
        node.get("cut.packed", "raw", compression)
    assert len(os.listdir(node.kept)) == 1


def test_a_sum_that_is_off_by_one_bit_is_refused(node: Node) -> None:
    (node.local / "disk").write_bytes(b"\0" * MIB)
    right = hashlib.sha256(b"\0" * MIB).digest()
    wrong = bytes([right[0] ^ 1]) + right[1:]
    with pytest.raises(
        ImageMismatch, match=f"sum is sha256:{right.hex()}, and the catalogue says sha256:{wrong.hex()}"
    ):
        node.get("disk", "raw", checksum=f"sha256:{wrong.hex()}")


def test_links_pipes_folders_and_names_that_lead_elsewhere_are_refused(node: Node) -> None:
    (node.local / "link").symlink_to(node.secret)
    os.mkfifo(node.local / "pipe")
    (node.local / "folder").mkdir()
    for name, why in (("link", "is a link"), ("pipe", "not a plain file"), ("folder", "not a plain file")):
        with pytest.raises(ImageMismatch, match=why):
            node.get(name, "raw", checksum=f"sha256:{hashlib.sha256(node.secret.read_bytes()).hexdigest()}")
    for name in ("../secret", "..", "/etc/passwd"):
        with pytest.raises(ImageMismatch, match="not the name of a file"):
            node.get(name, "raw", checksum=f"sha256:{'0' * 64}")
    with pytest.raises(ImageRefused, match="there is no file missing"):
        node.get("missing", "raw")
    assert os.listdir(node.kept) == []


def test_a_program_in_the_cage_sees_nothing_and_may_nothing(node: Node) -> None:
    look = "id -u; id -G; ls /; ls /proc | grep -c '^[0-9]'; grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status"
    with (node.kept / "out").open("w+b") as out:
        run_jailed(("sh", "-c", look), node.kept / "cage", MIB, (), None, out.fileno())
        out.seek(0)
        user, groups, *shown = out.read().decode().split("\n")
    assert (user, groups) == (str(USER), str(USER))
    assert shown[:8] == ["bin", "dev", "lib", "lib64", "proc", "sbin", "usr", shown[7]]
    assert int(shown[7]) <= 4  # itself and its children
    assert "CapEff:\t0000000000000000" in shown
    assert "CapBnd:\t0000000000000000" in shown
    assert "NoNewPrivs:\t1" in shown
    for attempt in (f"cat {node.secret}", "cat /etc/passwd", "echo x > /usr/x", "mount -t tmpfs tmpfs /proc"):
        with pytest.raises(ImageRefused):
            run_jailed(("sh", "-c", attempt), node.kept / "cage", MIB, (), None, None)


def test_a_program_that_does_not_end_is_ended_with_all_that_it_began(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "SECONDS", 1)
    word = f"30{os.getpid()}"
    with pytest.raises(ImageRefused, match="sh took more than 1 s"):
        run_jailed(("sh", "-c", f"sleep {word} & sleep {word}"), node.kept / "cage", MIB, (), None, None)
    left = [word]
    for _ in range(100):  # its namespace of processes outlives its first process by a moment
        left = subprocess.run(["pgrep", "-f", f"sleep {word}"], capture_output=True, text=True).stdout.split()
        if not left:
            break
        time.sleep(0.05)
    assert left == []
