"""`tarmac agent --remove`: removes everything that an agent with these flags ever created, its disks included.

It needs no records: pods are those with a cgroup or a folder of ours, and their sandboxes, links, mounts, loops and
logs follow from that; a virtual machine is a process in its pod's cgroup. So it works after any crash, and is
idempotent. Objects of other programs stay: their sandboxes in the same runtime, network plugins that we did not write,
the kubeconfig.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Set
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.cgroups.mounted import mounted
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.config.agentconfig import AgentConfig
from tarmac.agent.devices.folder import leave_folder
from tarmac.agent.network.cni.cnifiles import remove_files, written
from tarmac.apps.node.nodemachines import HOST_FILE, machine_folders
from tarmac.base.clock import SystemClock
from tarmac.datapath.linux import LinuxDatapath
from tarmac.runtimes.containerd.orphans import unmount_below
from tarmac.runtimes.cri import CriRuntime
from tarmac.runtimes.interface import RuntimeFault
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux import loops
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.linux.mountinfo import mounts

_SECONDS = 60.0


async def remove_agent(config: AgentConfig, *, runtime_follows: bool = False) -> list[str]:
    """Remove from the inside out: pods, links, cgroups, mounts, files. Return descriptions of the remains.

    `runtime_follows`: the caller removes the runtime with its records next, so a runtime that does not answer, because
    it was stopped together with the agent, leaves nothing behind.
    """
    if pids := running_agents(config.root_dir):
        return [f"process {pid}, an agent with this root directory: stop it first" for pid in pids]
    hierarchy = mounted()
    cgroups = KubePods(hierarchy, config.cgroup_root, SystemClock())
    uids = cgroups.uids() | _folders(config.root_dir / "pods")
    trouble = await _remove_sandboxes(config, uids)
    await _remove_links(config)
    with contextlib.suppress(CgroupError):
        await cgroups.sweep(set())
        hierarchy.kill(cgroups.top)
        hierarchy.remove(cgroups.top)
    await asyncio.to_thread(_remove_files, config, uids)
    return [*([] if runtime_follows else trouble), *_remains(config, cgroups.top)]


def running_agents(root_dir: Path) -> list[int]:
    """Return agents with this root directory on their command line, or with none, which means the default."""
    default = root_dir == Path("/var/lib/tarmac/agent")
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (
                (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdigit() else []
            )
            if "agent" in words and "--remove" not in words and "tarmac" in " ".join(words[:4]):
                found_root = _root_dir_of(words)
                if found_root == str(root_dir) or (default and not found_root):
                    found.append(int(entry.name))
    return found


def _root_dir_of(words: list[str]) -> str:
    """Return the value of `--root-dir`, in either form."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--root-dir="):
            return word.partition("=")[2]
        if word == "--root-dir":
            return following
    return ""


async def _remove_sandboxes(config: AgentConfig, uids: Set[str]) -> list[str]:
    runtime = CriRuntime(f"unix://{config.runtime_socket}", SystemClock())
    try:
        async with asyncio.timeout(_SECONDS):
            for sandbox in await runtime.sandboxes():
                if sandbox.pod.uid in uids:
                    await runtime.stop_sandbox(sandbox.id)
                    await runtime.remove_sandbox(sandbox.id)
    except (RuntimeFault, TimeoutError) as fault:
        # Their processes end with their cgroups; only the runtime's own records of them stay.
        return [f"sandboxes of {len(uids)} pods in the runtime: {fault}"] if uids else []
    finally:
        await runtime.close()
    return []


async def _remove_links(config: AgentConfig) -> None:
    if (config.flags.run_dir / "netns").is_dir():
        datapath = LinuxDatapath(config.flags.run_dir)
        await datapath.remove_all()
        await datapath.close()
    if written(config.flags.cni_conf_dir):
        remove_files(config.flags.cni_bin_dir, config.flags.cni_conf_dir)


def _remove_files(config: AgentConfig, uids: Set[str]) -> None:
    root, run = config.root_dir, config.flags.run_dir
    for uid in uids:
        for folder in config.pod_logs_dir.glob(f"*_{uid}"):
            shutil.rmtree(folder, ignore_errors=True)
    LinuxMedium(VolumeLayout(str(root))).close()
    for loop in loops.loops(str(root)):
        loops.clear(loop.device, loop.file)
    for folder in (root, run):
        unmount_below(folder)
    # A folder without pods belongs to no agent: protects against a wrong --root-dir.
    if (root / "pods").is_dir():
        shutil.rmtree(root, ignore_errors=True)
    with contextlib.suppress(OSError):
        leave_folder(config.flags.device_plugin_dir)
    shutil.rmtree(machine_folders(config).run, ignore_errors=True)
    for path in (run / "cni.sock", run / "netns"):
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
    # Shared with other agents of the host: they continue with their result, and the next one to start tests again.
    for path in (HOST_FILE, HOST_FILE.with_suffix(".lock")):
        path.unlink(missing_ok=True)
    for folder in (run, HOST_FILE.parent):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _folders(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()} if path.is_dir() else set()


def _remains(config: AgentConfig, top: str) -> list[str]:
    found = [f"mount {each.path}" for root in (config.root_dir, config.flags.run_dir) for each in mounts(str(root))]
    found += [f"loop device {loop.device} of {loop.file}" for loop in loops.loops(str(config.root_dir))]
    found += [f"cgroup {top}"] if mounted().exists(top) else []
    return found + ([str(config.root_dir)] if (config.root_dir / "pods").is_dir() else [])
