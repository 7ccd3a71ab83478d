"""Makes the operating systems for virtual machines, offline but for Debian's packages.

| image | what it is |
|---|---|
| `tiny` | Debian's cloud kernel, busybox and dropbear on an ext4 of 64 MiB: boots in seconds, for trials and tests |
| `debian-12` | Debian as it is, with systemd, cloud-init and ssh |

Both boot the same kernel and initial filesystem, which lie beside them (`vmlinuz`, `initrd`). A file `<image>.json`
says what the catalogue is to say of the image: where it is, its sum, how it boots. `python -m tools.machine_images`
makes both; `tiny` alone is made with the other parts of a node (`tools.node_parts`).
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tools import debian_image
from tools.cache import ROOT, cache_root, cached, digest, say
from tools.debs import NEWEST, Deb, fetch
from tools.guestfiles import write_cpio, write_ext4
from tools.kernelmodules import drivers, in_order
from tools.node_images import busybox
from tools.oci import Entry

_GUEST = ROOT / "tools" / "guest"
_TINY_BYTES = 64 << 20
# The last console is the one that a first process speaks to; the display shows the other.
_COMMAND_LINE = "console=tty0 console=ttyS0 quiet loglevel=4 no_timer_check random.trust_cpu=on root=/dev/vda"

_KERNEL = "linux-image-6.1.0-50-cloud-amd64"
KERNEL = (
    Deb("guest-kernel", _KERNEL, "bookworm", "6.1.176-1", f"usr/share/doc/{_KERNEL}/copyright"),
    Deb(
        "guest-kernel",
        "linux-image-cloud-amd64",
        "bookworm",
        NEWEST,
        "usr/share/doc/linux-image-cloud-amd64/copyright",
        ": the pinned version is gone from the mirror",
        ("?reverse-depends(?exact-name(linux-image-cloud-amd64))",),
    ),
)
_LIBRARIES = ("libcrypt1", "libtomcrypt1", "libtommath1", "libgmp10", "zlib1g")
_GROWTH = ("e2fsprogs", "libext2fs2", "libcom-err2", "libblkid1", "libuuid1")  # for a disk larger than its image
USERLAND = (
    Deb(
        "tiny",
        "dropbear-bin",
        "bookworm",
        "2022.83-1+deb12u3",
        "usr/sbin/dropbear",
        also=("busybox", "libc6", *_LIBRARIES, *_GROWTH),
    ),
    Deb(
        "tiny",
        "dropbear-bin",
        "bookworm",
        NEWEST,
        "usr/sbin/dropbear",
        ": the pinned version is gone from the mirror",
        ("busybox", "libc6", *_LIBRARIES, *_GROWTH),
    ),
)
_BINARIES = ("usr/sbin/dropbear", "usr/bin/dropbearkey", "sbin/resize2fs", "sbin/mke2fs", "sbin/e2fsck")
_DRIVERS = (
    "virtio_pci", "virtio_blk", "ext4", "virtio_net", "cdrom", "isofs", "virtio_rng", "virtio_balloon",
    "pvpanic-pci", "button", "evdev", "i8042", "atkbd",
)  # fmt: skip
_EARLY = ("sh", "mount", "insmod", "cat", "sleep", "poweroff", "switch_root")


def ensure_tiny() -> Path:
    """The folder of the kernel, the initial filesystem and `tiny`. Raises RuntimeError."""
    kernel, userland = fetch(*KERNEL).parents[4], fetch(*USERLAND).parents[2]
    scripts = sorted(path for path in _GUEST.rglob("*") if path.is_file())
    recipe = [
        Path(__file__),
        *(ROOT / "tools" / f"{name}.py" for name in ("guestfiles", "kernelmodules", "node_images")),
    ]
    key = digest(
        [
            str(kernel.parent.name).encode(),
            str(userland.parent.name).encode(),
            *(each.read_bytes() for each in [*recipe, *scripts]),
        ]
    )

    def write(folder: Path) -> None:
        say("making the small operating system for virtual machines")
        [image] = kernel.glob("boot/vmlinuz-*")
        (folder / "vmlinuz").write_bytes(image.read_bytes())
        write_cpio(_initial(kernel, userland), folder / "initrd")
        write_ext4(_tiny(userland), folder / "tiny.raw", _TINY_BYTES, "tiny")
        _describe(folder, folder, "tiny.raw")

    return cached("machine-tiny", "1", key, write)


def ensure_debian() -> Path:
    """The folder of `debian-12`. Raises RuntimeError."""
    boot, kernel = ensure_tiny(), fetch(*KERNEL).parents[4]
    recipe = [
        Path(debian_image.__file__).read_bytes(),
        *(path.read_bytes() for path in sorted((_GUEST / "debian").iterdir())),
    ]

    def write(folder: Path) -> None:
        say("making Debian 12 for virtual machines: a minute or two, once")
        debian_image.write(folder / "debian-12.qcow2", kernel / "lib" / "modules", _GUEST / "debian")
        _describe(folder, boot, "debian-12.qcow2")

    return cached("machine-debian-12", "1", digest([boot.name.encode(), *recipe]), write)


def install(made: Path) -> Path:
    """Show images where `tarmac` looks for them. They are linked hard: an image that is a symbolic link is refused."""
    folder = cache_root() / "node" / "machine-images"
    folder.mkdir(parents=True, exist_ok=True)
    # What is told of an image comes last: who reads that finds the files that it names.
    for file in sorted(made.iterdir(), key=lambda each: each.suffix == ".json"):
        fresh = folder / f".{file.name}.{os.getpid()}"
        os.link(file, fresh)
        fresh.replace(folder / file.name)
        fresh.unlink(missing_ok=True)  # a rename onto another name of the same file does nothing
    return folder


def _initial(kernel: Path, userland: Path) -> Iterator[Entry]:
    keep = {f"bin/{name}" for name in _EARLY}
    for entry in busybox(userland):
        if not entry.hard_link or entry.path in keep:
            yield entry
    yield Entry("init", (_GUEST / "init").read_bytes())
    yield Entry("drivers")
    files = in_order(drivers(kernel), _DRIVERS)
    yield from (Entry(f"drivers/{path.name}", path.read_bytes(), 0o644) for path in files)
    yield Entry("drivers/order", "".join(f"{path.name}\n" for path in files).encode(), 0o644)


def _tiny(userland: Path) -> Iterator[Entry]:
    yield from busybox(userland)
    [libraries] = (path.name for path in (userland / "lib").glob("*-linux-gnu"))
    for path in sorted(each for each in userland.glob(f"**/{libraries}/lib*.so.*") if _is_wanted(each)):
        yield Entry(f"lib/{libraries}/{path.name}", path.read_bytes())
    for folder in ("sbin", "lib/tiny", "etc/dropbear", "var/lib", "var/log", "mnt"):
        yield Entry(folder)
    yield Entry("sbin/init", symbolic_link="/bin/busybox")
    yield from (Entry(place, (userland / place).read_bytes()) for place in _BINARIES)
    yield Entry("sbin/mkfs.ext4", symbolic_link="mke2fs")
    yield from (_script(name, f"lib/tiny/{name}") for name in ("rcS", "rcK", "seed", "links", "hotplug", "vendor.awk"))
    yield from (_script("sudo", "usr/bin/sudo"), _script("inittab", "etc/inittab"), _script("profile", "etc/profile"))
    yield Entry("etc/shells", b"/bin/sh\n", 0o644)
    yield Entry("etc/hostname", b"tiny\n", 0o644)


def _is_wanted(library: Path) -> bool:
    return not library.name.startswith(("libc.", "libm.", "libresolv.", "libnss", "ld-")) and any(
        library.name.startswith(name)
        for name in (
            "libcrypt.",
            "libtomcrypt",
            "libtommath",
            "libgmp.",
            "libz.",
            "libext2fs",
            "libe2p",
            "libcom_err",
            "libblkid",
            "libuuid",
        )
    )


def _script(name: str, place: str) -> Entry:
    return Entry(place, (_GUEST / "tiny" / name).read_bytes())


def _describe(folder: Path, boot: Path, image: str) -> None:
    """What the catalogue is to say of an image: a part of the spec of its MachineImage."""

    def file(path: Path) -> dict[str, str]:
        return {"file": path.name, "checksum": _checksum(path)}

    spec = {
        "source": {"file": image},
        "checksum": _checksum(folder / image),
        "boot": {"kernel": file(boot / "vmlinuz"), "initrd": file(boot / "initrd"), "commandLine": _COMMAND_LINE},
    }
    (folder / f"{Path(image).stem}.json").write_text(json.dumps(spec, indent=2) + "\n")


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def main() -> int:
    """Make both, and print the folder in which they are."""
    try:
        install(ensure_tiny())
        print(install(ensure_debian()))
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
