"""Configuration of a private containerd: pure functions from its directories to the text of its files.

Several can share a host, since each has its own directories: `root` for images and snapshots, on disk; `run` for
sockets and state, in memory, because the configuration of containers passes through there and secrets must not reach a
disk.

No pod annotation is passed on to a runtime (`pod_annotations`): runtimes read settings from them, gVisor even flags and
host paths, and pods are written by tenants.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from tarmac.api.kubernetes.runtimeclasses import NVIDIA_HANDLER, SANDBOX_CLASS
from tarmac.runtimes.parts import NodeParts

PAUSE_IMAGE = "registry.local/tarmac/pause:1"
_UNUSED_SNAPSHOTTERS = ("aufs", "btrfs", "zfs", "devmapper", "native", "blockfile")
_CRI = 'plugins."io.containerd.grpc.v1.cri"'


@dataclass(frozen=True, slots=True)
class ContainerdSettings:
    """Directories and options of one containerd. Without `network_namespace` (a path) it is in the caller's.

    `wrapper` is a command that executes the command given to it, as `nice` does.
    """

    root: Path
    run: Path
    cni_bin: Path
    cni_conf: Path
    certs: Path  # a directory per registry, each with a hosts.toml; read at every pull
    parts: NodeParts
    network_namespace: Path | None = None
    blockio_config: Path | None = None
    nvidia: bool = False  # the host has NVIDIA's driver, so sandboxes can use its devices
    wrapper: tuple[str, ...] = ()

    @property
    def socket(self) -> Path:
        """The CRI socket."""
        return self.run / "c.sock"

    @property
    def endpoint(self) -> str:
        """The CRI socket in the form of `--container-runtime-endpoint`."""
        return f"unix://{self.socket}"


def config_text(settings: ContainerdSettings, *, restrict_oom_score: bool) -> str:
    """Return the config.toml. Version 2 is read by containerd 1.x and, after a migration of its own, by 2.x.

    `restrict_oom_score`: required without CAP_SYS_RESOURCE, else no sandbox starts: OOM scores cannot be lowered.
    """
    lines = [
        "version = 2",
        f"root = {_quoted(settings.root / 'root')}",
        f"state = {_quoted(settings.run / 'state')}",
        f"disabled_plugins = {json.dumps([f'io.containerd.snapshotter.v1.{name}' for name in _UNUSED_SNAPSHOTTERS])}",
        "[debug]",
        '  level = "warn"',
        "[grpc]",
        f"  address = {_quoted(settings.socket)}",
        "[ttrpc]",
        f"  address = {_quoted(settings.run / 't.sock')}",
        '[plugins."io.containerd.internal.v1.opt"]',
        f"  path = {_quoted(settings.root / 'opt')}",
        *_cri(settings, restrict_oom_score=restrict_oom_score),
        *_runc(f"{_CRI}.containerd.runtimes.runc", settings),
        *(line for name, file in sandboxes(settings).items() for line in _gvisor(name, file)),
    ]
    if settings.blockio_config is not None:
        file = f"  blockio_config_file = {_quoted(settings.blockio_config)}"
        lines += ['[plugins."io.containerd.service.v1.tasks-service"]', file]
    return "\n".join(lines) + "\n"


def sandboxes(settings: ContainerdSettings) -> dict[str, Path]:
    """Return the gVisor handlers, and the runsc.toml of each."""
    if settings.parts.runsc is None:
        return {}
    names = [SANDBOX_CLASS, *([NVIDIA_HANDLER] if settings.nvidia else [])]
    return {name: settings.run / ("runsc.toml" if name == SANDBOX_CLASS else f"runsc-{name}.toml") for name in names}


def runsc_text(settings: ContainerdSettings, handler: str = SANDBOX_CLASS) -> str:
    """Return a runsc.toml. Raw sockets need the capability, as with the host's kernel."""
    lines = [
        f"binary_name = {_quoted(settings.parts.runsc)}",
        f"root = {_quoted(settings.run / 'runsc')}",
        "[runsc_config]",
        '  platform = "systrap"',
        '  network = "sandbox"',
        '  net-raw = "true"',
        *(['  nvproxy = "true"'] if handler == NVIDIA_HANDLER else []),
    ]
    return "\n".join(lines) + "\n"


def _cri(settings: ContainerdSettings, *, restrict_oom_score: bool) -> list[str]:
    return [
        f"[{_CRI}]",
        f"  sandbox_image = {_quoted(PAUSE_IMAGE)}",
        f"  restrict_oom_score_adj = {json.dumps(restrict_oom_score)}",
        "  netns_mounts_under_state_dir = true",
        "  enable_cdi = true",  # device plugins name devices described in /etc/cdi and /var/run/cdi
        '  drain_exec_sync_io_timeout = "5s"',  # else a probe with a child that keeps its output open never ends
        f"  [{_CRI}.cni]",
        f"    bin_dir = {_quoted(settings.cni_bin)}",
        f"    conf_dir = {_quoted(settings.cni_conf)}",
        f"  [{_CRI}.registry]",
        f"    config_path = {_quoted(settings.certs)}",
        f"  [{_CRI}.containerd]",
        '    snapshotter = "overlayfs"',
        '    default_runtime_name = "runc"',
    ]


def _runc(table: str, settings: ContainerdSettings) -> list[str]:
    return [
        f"[{table}]",
        '  runtime_type = "io.containerd.runc.v2"',
        f"  [{table}.options]",
        f"    BinaryName = {_quoted(settings.parts.runc)}",
        f"    Root = {_quoted(settings.run / 'runc')}",
    ]


def _gvisor(handler: str, file: Path) -> list[str]:
    table = f"{_CRI}.containerd.runtimes.{handler}"
    return [
        f"[{table}]",
        '  runtime_type = "io.containerd.runsc.v1"',
        f"  [{table}.options]",
        '    TypeUrl = "io.containerd.runsc.v1.options"',
        f"    ConfigPath = {_quoted(file)}",
    ]


def _quoted(value: object) -> str:
    """Return a TOML string; JSON's quoting rules are a subset of TOML's."""
    return json.dumps(str(value), ensure_ascii=False)
