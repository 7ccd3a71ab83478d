"""The flags of a node's agent, named as kubelet names them where it has them."""

from __future__ import annotations

import argparse
import ipaddress
import socket
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path

from tarmac.base.duration import parse_duration


def add_agent_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac agent`."""
    _add_identity(command)
    _add_node(command)
    _add_sizes(command)
    _add_machine(command)
    _add_ingress(command)
    command.add_argument("--log-format", choices=("text", "json"), default="text", help="format of log lines on stderr")
    command.add_argument("--verbose", action="store_true", help="log more")
    # argparse has no public list of a parser's flags.
    names = [name for name in command._option_string_actions if name.startswith("--")]  # pyright: ignore[reportPrivateUsage]
    command.set_defaults(known_flags=names, unknown=(), kubelet=None)


def _add_ingress(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--drain-announcements", type=_duration, default=5.0, metavar="DURATION",
        help="how long a node that stops goes on forwarding after it has withdrawn its public addresses (default: 5s)",
    )  # fmt: skip


def _add_identity(command: argparse.ArgumentParser) -> None:
    command.add_argument("--kubeconfig", type=Path, metavar="FILE", help="the server and the node's credentials")
    command.add_argument(
        "--remove", action="store_true",
        help="remove everything that an agent with these flags created on this host, including disks",
    )  # fmt: skip
    command.add_argument(
        "--bootstrap-kubeconfig", type=Path, metavar="FILE",
        help="credentials for requesting a certificate; the kubeconfig is then written",
    )  # fmt: skip
    command.add_argument(
        "--config", type=Path, metavar="FILE",
        help="a file with an AgentConfig (a field for each flag; flags win), or a KubeletConfiguration; read strictly",
    )  # fmt: skip
    command.add_argument(
        "--feature-gates", type=gates, default={}, metavar="NAME=BOOL,NAME=BOOL", help="as kubelet takes them"
    )


def _add_node(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--node-name", default=socket.gethostname().lower(), metavar="NAME",
        help="the Node's name (default: the host's)",
    )  # fmt: skip
    command.add_argument("--location", default="", metavar="NAME", help="the Location the node belongs to")
    command.add_argument("--node-labels", type=pairs, default={}, metavar="KEY=VALUE,KEY=VALUE", help="more labels")
    command.add_argument(
        "--node-ip", type=addresses, default=(), metavar="ADDRESS,ADDRESS",
        help="the node's addresses (default: those of its default routes)",
    )  # fmt: skip


def _add_sizes(command: argparse.ArgumentParser) -> None:
    for pool, whom in (("system", "the system"), ("kube", "the agent and the container runtime")):
        command.add_argument(
            f"--{pool}-reserved", type=pairs, default={}, metavar="RESOURCE=AMOUNT,RESOURCE=AMOUNT",
            help=f"held back for {whom}, such as cpu=200m,memory=1Gi; over the file, resource by resource",
        )  # fmt: skip
    command.add_argument(
        "--reserved-cpus", default="", metavar="CPUS",
        help="reserved CPUs by number, such as 0,4-5; replaces the reserved amounts of cpu",
    )  # fmt: skip
    command.add_argument(
        "--cpu-manager-policy", choices=("none", "static"), default="",
        help="static: containers of guaranteed pods that request whole CPUs have them exclusively",
    )  # fmt: skip
    command.add_argument(
        "--cpu-over-subscription-capacity", default="", metavar="CPUS",
        help="CPUs to offer beyond those that exist and are not reserved, such as 1.5",
    )  # fmt: skip
    command.add_argument(
        "--sizing-provider-config", type=Path, metavar="FILE",
        help="programs that determine reservations (needs the feature gate KubeletSizingProviders)",
    )  # fmt: skip
    command.add_argument("--sizing-provider-bin-dir", type=Path, metavar="DIR", help="the folder of these programs")


def _add_machine(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root-dir", type=Path, default=Path("/var/lib/tarmac/agent"), metavar="DIR",
        help="the folder of the agent's state (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--run-dir", type=Path, default=Path("/run/tarmac/agent"), metavar="DIR",
        help="the folder of its sockets (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--pod-logs-dir", type=Path, metavar="DIR", help="the folder of the logs of pods (default: /var/log/pods)"
    )
    command.add_argument(
        "--container-runtime-endpoint", default="", metavar="URL",
        help="the runtime's socket (default: unix:///run/containerd/containerd.sock)",
    )  # fmt: skip
    command.add_argument(
        "--cgroup-root", default="", metavar="PATH", help="the parent of the pods' cgroups (default: /)"
    )
    command.add_argument(
        "--network", choices=("tarmac", "cni", "auto"), default="auto",
        help="the network of pods: the agent's, or that of the cluster's own plugins; auto: the agent's if "
        "podendpoints are served",
    )  # fmt: skip
    command.add_argument(
        "--ignore-unsupported-policies", action="store_true",
        help="start although the configuration has policies for memory or topology that are not supported here",
    )  # fmt: skip
    command.add_argument(
        "--encrypt-between-cities", choices=("require", "off"), default="require",
        help="whether packets of external services to and from other cities have to be encrypted (default: require)",
    )  # fmt: skip
    command.add_argument(
        "--cni-bin-dir", type=Path, default=Path("/opt/cni/bin"), metavar="DIR",
        help="the runtime's folder of network plugins (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--cni-conf-dir", type=Path, default=Path("/etc/cni/net.d"), metavar="DIR",
        help="the runtime's folder of their configuration (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--machine-image-dir", type=Path, metavar="DIR",
        help="the folder of machine images (default: machine-images among its parts)",
    )  # fmt: skip
    command.add_argument(
        "--tenant-image-networks", type=_networks, default=(), metavar="CIDRS",
        help="networks beside the public internet that images of namespaces may be fetched from (default: none)",
    )  # fmt: skip
    command.add_argument(
        "--tenant-image-denied-networks", type=_networks, default=(), metavar="CIDRS",
        help="networks that they may not be fetched from, public ones too (default: none)",
    )  # fmt: skip
    command.add_argument(
        "--registry-hosts-dir", type=Path, metavar="DIR",
        help="containerd's folder of registries, each with a hosts.toml: machine images that namespaces uploaded are "
        "fetched from the platform's own (default: none are)",
    )  # fmt: skip
    command.add_argument(
        "--recording-days", type=_positive, default=30, metavar="DAYS",
        help="retention of recordings of consoles (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--recording-bytes", type=_positive, default=256 * 1024 * 1024, metavar="BYTES",
        help="maximum size of all recordings together (default: 256 MiB)",
    )  # fmt: skip
    command.add_argument(
        "--device-plugin-dir", type=Path, default=Path("/var/lib/kubelet/device-plugins"), metavar="DIR",
        help="the folder of the sockets of device plugins and the agent (default: %(default)s)",
    )  # fmt: skip
    command.add_argument(
        "--nvidia", choices=("auto", "off"), default="auto",
        help="auto: run `tarmac device-plugin nvidia` where NVIDIA's driver is loaded (default: auto)",
    )  # fmt: skip
    command.add_argument(
        "--nvidia-names", type=pairs, default={}, metavar="MODEL=NAME,MODEL=NAME",
        help="other resource names for models of NVIDIA's GPUs, such as a100=tesla-a100",
    )  # fmt: skip


def pairs(text: str) -> dict[str, str]:
    """Parse `a=b,c=d`."""
    found: dict[str, str] = {}
    for pair in filter(None, text.split(",")):
        key, separator, value = pair.partition("=")
        if not separator:
            raise argparse.ArgumentTypeError(f"{pair!r} is not KEY=VALUE")
        found[key] = value
    return found


def gates(text: str) -> dict[str, bool]:
    """Parse `A=true,B=false`."""
    found = pairs(text)
    for name, value in found.items():
        if value.lower() not in ("true", "false"):
            raise argparse.ArgumentTypeError(f"{name}={value}: write true or false")
    return {name: value.lower() == "true" for name, value in found.items()}


def addresses(text: str) -> tuple[str, ...]:
    """Parse `10.0.0.1,fd00::1`."""
    try:
        return tuple(str(ipaddress.ip_address(each.strip())) for each in text.split(",") if each.strip())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _networks(text: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks, separated by commas."""
    try:
        return tuple(ip_network(each.strip()) for each in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{error}; write networks such as 192.0.2.0/24,2001:db8::/32") from error


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def _duration(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
