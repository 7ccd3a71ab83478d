"""The flags of controllers, named as kube-controller-manager names them."""

from __future__ import annotations

import argparse

from tarmac.base.duration import parse_duration
from tarmac.cli.agent import gates


def add_controllers_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac controllers`."""
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="the server and the credentials (default: KUBECONFIG, then the pod's own)"
    )
    command.add_argument("--context", metavar="NAME", help="context of the kubeconfig")
    add_controller_flags(command)
    command.add_argument("--log-format", choices=("text", "json"), default="text", help="format of log lines on stderr")
    command.add_argument("--verbose", action="store_true", help="log more")
    command.add_argument(
        "--health-port", type=int, metavar="PORT",
        help="serve /healthz on this port of every address, without TLS, for probes (default: none)",
    )  # fmt: skip
    election = command.add_argument_group("leader election among several processes")
    election.add_argument(
        "--leader-elect", type=boolean, nargs="?", const=True, default=True, metavar="BOOL",
        help="lead only while holding the Lease kube-system/tarmac-controllers (default: true)",
    )  # fmt: skip
    for name, default, text in (
        ("lease-duration", "15s", "time that standby processes wait for a silent leader"),
        ("renew-deadline", "10s", "time that a leader continues without renewal"),
        ("retry-period", "2s", "interval of attempts"),
    ):
        election.add_argument(
            f"--leader-elect-{name}", type=seconds, default=seconds(default), metavar="TIME",
            help=f"{text} (default: {default})",
        )  # fmt: skip


def add_kubernetes_controllers_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac kubernetes-controllers`."""
    command.add_argument(
        "--kubeconfig", metavar="FILE", help="the server and the credentials of the program (default: KUBECONFIG)"
    )
    command.add_argument(
        "--controllers", type=names, default=(), metavar="NAME,NAME",
        help="only these of the controllers that may run there (default: all of them)",
    )  # fmt: skip


def add_controller_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of every command that runs controllers."""
    command.add_argument(
        "--controllers", default=None, metavar="NAMES",
        help="which controllers to run: * for all, NAME for one, -NAME for all but one, workloads for those of "
        "Workloads only (default: *, and workloads beside an API server that is not Tarmac's)",
    )  # fmt: skip
    command.add_argument(
        "--node-monitor-grace-period", type=seconds, default=seconds("40s"), metavar="TIME",
        help="time without a heartbeat before a node counts as silent (default: 40s)",
    )  # fmt: skip
    command.add_argument(
        "--metrics-url", default="", metavar="URL",
        help="Prometheus for external metrics, where a Location names none of its own",
    )  # fmt: skip
    command.add_argument(
        "--autoscaler-sync-period", type=seconds, default=seconds("15s"), metavar="TIME",
        help="interval of reading the metrics of each deployment (default: 15s)",
    )  # fmt: skip
    command.add_argument(
        "--scheduler-names", type=names, default=None, metavar="NAME,NAME",
        help="schedule pods with one of these schedulerNames (default: tarmac,default-scheduler, and tarmac alone "
        "beside an API server that is not Tarmac's)",
    )  # fmt: skip
    command.add_argument(
        "--feature-gates", type=gates, default={}, metavar="NAME=BOOL,NAME=BOOL",
        help="feature gates to switch on or off, such as ClassResources=true",
    )  # fmt: skip


def names(text: str) -> tuple[str, ...]:
    """Parse `a,b`."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def boolean(text: str) -> bool:
    """Parse `true` or `false`."""
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text == "true"


def seconds(text: str) -> float:
    """Parse a positive duration, such as 40s."""
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a length of time")
    return found
