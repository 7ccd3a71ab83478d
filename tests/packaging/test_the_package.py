"""The Debian packages: the same bytes each time, with the right content."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tarmac.server.endpoints.documents import commit_of
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.gobuilt import needs
from tools import controllers_package, etcd_package, machines_package
from tools.cache import ROOT, cache_root
from tools.package import SCRIPTS, SYSTEMS, UNITS, build, depends

pytestmark = [pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build for one Python and without a node's programs: the rest is copied the same way."""
    return build(tmp_path_factory.mktemp("dist"), "bookworm")


def listed(package: Path) -> list[tuple[str, str, str]]:
    """Return mode, owner and path of all its files."""
    told = subprocess.run(["dpkg-deb", "--contents", str(package)], capture_output=True, text=True, check=True).stdout
    words = [line.split(None, 5) for line in told.splitlines()]
    return [(each[0], each[1], each[5].removeprefix(".")) for each in words]


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        return machines_package.build(tmp_path_factory.mktemp("dist"), cache_root() / "node")
    except RuntimeError as missing:
        pytest.skip(f"NOT RUN: {missing}")


def field(package: Path, name: str) -> str:
    """Return a field of the package's control file."""
    told = subprocess.run(["dpkg-deb", "--field", str(package), name], capture_output=True, text=True, check=True)
    return told.stdout.strip()


def test_two_builds_are_the_same_bytes(package: Path, tmp_path: Path) -> None:
    again = build(tmp_path, "bookworm")
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(package.read_bytes()).hexdigest()


def test_it_holds_what_a_machine_needs_and_belongs_to_root(package: Path) -> None:
    found = listed(package)
    paths = {path for _, _, path in found}
    assert {owner for _, owner, _ in found} == {"root/root"}
    assert not [path for path in paths if "__pycache__" in path or path.endswith(".pyc")]
    assert {f"/usr/lib/systemd/system/{unit}" for unit in UNITS} <= paths
    wanted = {"/usr/bin/tarmac", "/opt/tarmac/lib/cp311/tarmac/apps/main.py", "/usr/share/man/man8/tarmac-join.8"}
    wanted |= {"/usr/share/bash-completion/completions/tarmac", "/usr/share/zsh/vendor-completions/_tarmac"}
    assert wanted <= paths
    assert not [path for path in paths if path.startswith(("/etc", "/var"))], (
        "configuration and data are made, not shipped"
    )
    assert {mode for mode, _, path in found if path == "/usr/bin/tarmac"} == {"-rwxr-xr-x"}


@pytest.mark.parametrize(("system", "python", "next_one"), [("noble", "3.12", "3.13"), ("trixie", "3.13", "3.14")])
def test_a_package_depends_on_the_one_python_of_its_system(system: str, python: str, next_one: str) -> None:
    assert SYSTEMS[system] == python
    assert depends(python).startswith(f"python3 (>= {python}), python3 (<< {next_one}), nftables, ")


def test_another_python_is_refused_before_anything_is_unpacked(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--control", str(package), str(tmp_path)], check=True)
    script = (tmp_path / "preinst").read_text()
    for found, code in (("3.12", 1), ("", 1), ("3.11", 0)):
        python = tmp_path / "python3"
        python.write_text(f"#!/bin/sh\n{f'echo {found}' if found else 'exit 1'}\n")
        python.chmod(0o755)
        tried = script.replace("/usr/bin/python3", str(python))
        done = subprocess.run(["sh", "-c", tried, "preinst", "install"], capture_output=True, text=True, check=False)
        expected = f"tarmac: this package is for bookworm with Python 3.11, and this machine has {found or 'none'}; "
        said = expected + "install the package of its own system\n"
        assert (done.returncode, done.stderr) == (code, said if code else "")


def test_the_package_recommends_the_one_with_machines_and_needs_no_qemu(package: Path) -> None:
    assert field(package, "Recommends") == "tarmac-machines"
    assert "qemu" not in field(package, "Depends")


def test_the_package_for_machines_holds_the_trial_kernel_and_depends_on_qemu(machines: Path) -> None:
    found = listed(machines)
    assert {owner for _, owner, _ in found} == {"root/root"}
    files = {path for mode, _, path in found if mode.startswith("-")}
    images = {f"/opt/tarmac/parts/machine-images/{name}" for name in ("vmlinuz", "initrd", "tiny.raw", "tiny.json")}
    assert files == {*images, "/usr/share/doc/tarmac-machines/copyright"}
    depends = {each.split()[0] for each in field(machines, "Depends").split(", ")}
    assert depends == {"tarmac", "qemu-system-x86", "qemu-utils", "ovmf", "xz-utils", "zstd"}


def test_two_builds_of_the_package_for_machines_are_the_same_bytes(machines: Path, tmp_path: Path) -> None:
    again = machines_package.build(tmp_path, cache_root() / "node")
    assert hashlib.sha256(again.read_bytes()).hexdigest() == hashlib.sha256(machines.read_bytes()).hexdigest()


def test_the_package_for_machines_cannot_be_built_without_their_images(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"has no vmlinuz, initrd, tiny.raw, tiny.json; run make node-parts"):
        machines_package.build(tmp_path / "dist", tmp_path)


@needs()
@pytest.mark.peers
def test_the_package_for_stock_controllers_holds_the_program_and_a_service(tmp_path: Path) -> None:
    made = controllers_package.build(tmp_path, cache_root() / "node", fast=True)
    found = listed(made)
    assert {owner for _, owner, _ in found} == {"root/root"}
    files = {path: mode for mode, _, path in found if mode.startswith("-")}
    assert files == {
        "/opt/tarmac/parts/bin/kube-controller-manager": "-rwxr-xr-x",
        f"/usr/lib/systemd/system/{controllers_package.UNIT}": "-rw-r--r--",
        "/usr/share/doc/tarmac-kubernetes-controllers/copyright": "-rw-r--r--",
    }
    assert field(made, "Depends").startswith("tarmac (>= ")
    assert made.stat().st_size < 40_000_000
    subprocess.run(["dpkg-deb", "--extract", str(made), str(tmp_path / "root")], check=True)
    program = tmp_path / "root/opt/tarmac/parts/bin/kube-controller-manager"
    told = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    assert told.stdout == "Kubernetes v1.35.8\n"


def test_the_package_of_etcd_holds_the_program_and_a_service(tmp_path: Path) -> None:
    made = etcd_package.build(tmp_path, etcd_binary(ETCDS[-1]), fast=True)
    found = listed(made)
    assert {owner for _, owner, _ in found} == {"root/root"}
    assert {path: mode for mode, _, path in found if mode.startswith("-")} == {
        "/opt/tarmac/parts/bin/etcd": "-rwxr-xr-x",
        f"/usr/lib/systemd/system/{etcd_package.UNIT}": "-rw-r--r--",
        "/usr/share/doc/tarmac-etcd/copyright": "-rw-r--r--",
    }
    assert field(made, "Depends").startswith("tarmac (>= ")
    subprocess.run(["dpkg-deb", "--extract", str(made), str(tmp_path / "root")], check=True)
    program = tmp_path / "root/opt/tarmac/parts/bin/etcd"
    told = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True)
    assert told.stdout.startswith("etcd Version: 3.")


def test_the_package_for_stock_controllers_cannot_be_built_without_the_program(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="kube-controller-manager is missing; run make kubernetes-controllers"):
        controllers_package.build(tmp_path / "dist", tmp_path)


def test_it_says_which_commit_it_was_built_from(package: Path, tmp_path: Path) -> None:
    subprocess.run(["dpkg-deb", "--extract", str(package), str(tmp_path)], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert commit_of(tmp_path / "opt/tarmac/lib/cp311/tarmac") == head.strip()


def test_units_and_scripts_are_sound(tmp_path: Path) -> None:
    packaging = Path(__file__).parents[2] / "packaging"
    machines = (f"machines/{name}" for name in machines_package.SCRIPTS)
    stock = (f"kubernetes-controllers/{name}" for name in controllers_package.SCRIPTS)
    etcd = (f"etcd/{name}" for name in etcd_package.SCRIPTS)
    for name in (*SCRIPTS, *machines, *stock, *etcd):
        assert subprocess.run(["sh", "-n", str(packaging / name)]).returncode == 0
    if not Path("/usr/bin/systemd-analyze").exists():
        pytest.skip("NOT RUN: there is no systemd-analyze to look at the units with")
    units = [packaging / unit for unit in UNITS]
    units += [each.FOLDER / each.UNIT for each in (controllers_package, etcd_package)]
    for unit in units:  # programs that are not installed here are no error of the unit
        (tmp_path / unit.name).write_text(unit.read_text().replace("/usr/bin/tarmac", "/bin/true"))
    told = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in units)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert [line for line in told.stderr.splitlines() if str(tmp_path) in line or "tarmac-" in line] == []


@pytest.mark.parametrize(
    ("unit", "most"),
    [
        ("tarmac-server.service", 20),
        ("tarmac-agent.service", 72),
        ("etcd/tarmac-etcd.service", 20),
        ("kubernetes-controllers/tarmac-kubernetes-controllers.service", 20),
    ],
)
def test_units_are_exposed_no_more_than_they_have_to_be(unit: str, most: int) -> None:
    """The limits are systemd's scores, of 100. Containers inherit restrictions of containerd's unit, so it has none."""
    if not Path("/usr/bin/systemd-analyze").exists():
        pytest.skip("NOT RUN: there is no systemd-analyze to look at the units with")
    words = ["systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={most}"]
    told = subprocess.run([*words, str(ROOT / "packaging" / unit)], capture_output=True, text=True)
    assert told.returncode == 0, told.stdout
