"""`tarmac agent`: composes a node from its parts in the order of their dependencies.

    configuration (read, size, settle) → cgroups → runtime → identity and client → volumes → pods
      → status, lease, eviction, collection, HTTP

SIGTERM and SIGINT end only the agent: pods keep running, and the next agent adopts them. SIGPWR announces a shutdown of
the host: pods are ended first, within `shutdownGracePeriod`, and new ones are rejected. Failed parts are restarted. The
agent waits for a missing runtime or server at start; an invalid configuration ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import uvloop

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.config.agentconfig import AgentConfig, settle
from tarmac.agent.config.configreader import BadConfig, StatedConfig, read, stated
from tarmac.agent.config.flags import Flags
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.sizing.providers import ProviderFailed, SizingProviders
from tarmac.agent.sizing.reservations import resize, size
from tarmac.apps.node.composing import NodeAgent, Providers
from tarmac.base.clock import SystemClock
from tarmac.base.garbage import collect_rarely
from tarmac.base.heap import share_one_heap
from tarmac.base.log import configure, log
from tarmac.base.stderr import print_error
from tarmac.base.tasks import Tasks, background, first
from tarmac.client.errors import BadKubeconfig
from tarmac.decide.allocatable.reservations import Reservations

_SHUTDOWN_TIMEOUT = 8.0
_log = log("agent")


def main(options: argparse.Namespace) -> int:
    """Run a node until a signal, or remove one; return the exit code.

    0 after a signal, 78 for an invalid configuration, 70 for a failed sizing provider, 2 for the command line, 1
    otherwise.
    """
    if options.kubeconfig is None and not options.remove:
        print_error("give --kubeconfig to run a node, or --remove to remove it")
        return 2
    share_one_heap()
    configure(level="debug" if options.verbose else "info", as_json=options.log_format == "json")
    try:
        stated_config = read_config(options)
        if options.remove:
            # Removing a node must not depend on its sizing.
            return _remove(settle(stated_config, Reservations()))
        uvloop.run(run(stated_config))
    except (BadConfig, BadKubeconfig) as error:
        return _refused(error, os.EX_CONFIG)
    except ProviderFailed as error:
        return _refused(error, os.EX_SOFTWARE)
    except (CgroupError, OSError) as error:
        return _refused(error, 1)
    return 0


def read_config(options: argparse.Namespace) -> StatedConfig:
    """Return the configuration of command line and file. Raises BadConfig."""
    return stated(_flags(options), _kubelet(options))


def _kubelet(options: argparse.Namespace) -> KubeletConfiguration:
    """Return the kubelet section of the AgentConfig, or of a separate file. Raises BadConfig."""
    if options.kubelet is not None:
        return options.kubelet
    return read(options.config) if options.config else KubeletConfiguration()


def _refused(error: Exception, code: int) -> int:
    print_error(error)
    return code


def _remove(config: AgentConfig) -> int:
    from tarmac.apps.node.removing import remove_agent

    left = asyncio.run(remove_agent(config))
    for what in left:
        print_error(f"{what}: still there")
    return 1 if left else 0


async def run(stated_config: StatedConfig) -> None:
    """Compose the node, then run until a signal; print one line when the node is registered and can run pods."""
    stopping, draining = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    loop.add_signal_handler(signal.SIGPWR, draining.set)
    providers = SizingProviders.stated(stated_config, SystemClock())
    # a running provider is killed at the end of the block
    async with background(size(stated_config, providers), "sizing") as sizing:
        await first(asyncio.wait([sizing]), stopping.wait(), draining.wait())
    if sizing.cancelled():
        return
    config = settle(stated_config, sizing.result())
    config.root_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # Secrets of pods are below
    async with AsyncExitStack() as stack:
        again = Providers(providers, partial(resize, stated_config, providers)) if providers else None
        node = await NodeAgent.compose(config, stack, again)
        tasks = Tasks()
        stack.push_async_callback(tasks.close, _SHUTDOWN_TIMEOUT)
        work = tasks.track(node.run(), "the node's work")
        tasks.begin(_print_when_ready(node), "the line that says ready")
        await first(asyncio.wait([work]), stopping.wait(), draining.wait())
        if work.done():
            await work  # it never returns normally: this raises its error
        if draining.is_set():
            await node.drain()
    _log.info("stopped", node=config.node_name)


async def _print_when_ready(node: NodeAgent) -> None:
    await node.ready()
    collect_rarely(10_000)
    print(f"tarmac agent ready {node.name}", flush=True)


def _flags(options: argparse.Namespace) -> Flags:
    return Flags(
        node_name=options.node_name,
        kubeconfig=options.kubeconfig or Path(),
        bootstrap_kubeconfig=options.bootstrap_kubeconfig,
        root_dir=options.root_dir,
        run_dir=options.run_dir,
        pod_logs_dir=options.pod_logs_dir,
        location=options.location,
        network=options.network,
        encrypt_between_cities=options.encrypt_between_cities,
        drain_announcements=options.drain_announcements,
        ignore_unsupported_policies=options.ignore_unsupported_policies,
        cni_bin_dir=options.cni_bin_dir,
        cni_conf_dir=options.cni_conf_dir,
        device_plugin_dir=options.device_plugin_dir,
        nvidia=options.nvidia,
        nvidia_names=options.nvidia_names,
        machine_image_dir=options.machine_image_dir,
        tenant_image_networks=options.tenant_image_networks,
        tenant_image_denied_networks=options.tenant_image_denied_networks,
        registry_hosts_dir=options.registry_hosts_dir,
        recording_days=options.recording_days,
        recording_bytes=options.recording_bytes,
        node_labels=options.node_labels,
        node_ips=options.node_ip,
        runtime_endpoint=options.container_runtime_endpoint,
        cgroup_root=options.cgroup_root,
        oversubscription=options.cpu_over_subscription_capacity,
        system_reserved=options.system_reserved,
        kube_reserved=options.kube_reserved,
        reserved_cpus=options.reserved_cpus,
        cpu_manager_policy=options.cpu_manager_policy,
        sizing_provider_config=options.sizing_provider_config,
        sizing_provider_bin_dir=options.sizing_provider_bin_dir,
        feature_gates=options.feature_gates,
        unknown=tuple(options.unknown),
    )
