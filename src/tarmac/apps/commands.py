"""The commands of `tarmac`, in the order of its help.

A command that needs only a client is declared in `tarmac.cli.commands`; the others run a composition root, which is
loaded only then.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from tarmac.cli.agent import add_agent_flags
from tarmac.cli.backup import BACKUP_CODES, add_backup_flags, add_doctor_flags, add_restore_flags, add_upgrade_flags
from tarmac.cli.command import Command, CommandGroup, by_action, client_verb, parser_of, root
from tarmac.cli.commands.clustercommands import LOCATION, NODE, RESTORED, ROTATE, STATUS, TOKEN, USER
from tarmac.cli.commands.logscommand import LOGS
from tarmac.cli.commands.machinecommands import CONSOLE, MACHINE, VNC, add_dashboard_flags
from tarmac.cli.commands.topcommand import TOP
from tarmac.cli.commands.workloadcommands import CONVERT, EGRESS, INGRESS, NEW, PLAN, ROLLOUT, WHY
from tarmac.cli.controllers import add_controllers_flags, add_kubernetes_controllers_flags
from tarmac.cli.deviceplugin import DEVICE_PLUGIN_CODES, add_device_plugin_flags
from tarmac.cli.flags import add_data_dir
from tarmac.cli.host import ETCD_CODES, HOST_CODES, add_etcd_flags, add_init_flags, add_join_flags, add_leave_flags
from tarmac.cli.image import add_image_flags
from tarmac.cli.parsing import parse
from tarmac.cli.serverflags import (
    add_config_flags,
    add_crds_flags,
    add_server_flags,
    add_sim_flags,
    add_store_flags,
    add_up_flags,
)


def _add_completion_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "shell", choices=("bash", "zsh", "fish", "words"), help="the shell; words: for the scripts themselves"
    )
    command.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help="the words typed so far")


def _join(options: argparse.Namespace) -> int:
    as_server = options.server and not options.addresses  # both, or neither, is an error that `joining` reports
    return root("tarmac.apps.host.serverjoining" if as_server else "tarmac.apps.host.joining")(options)


_ETCD = root("tarmac.apps.host.etcdverbs")
_IMAGES = root("tarmac.apps.images")

COMMANDS: Final = (
    Command(
        "up",
        group=CommandGroup.RUN,
        help="run everything on this host, in the foreground",
        flags=add_up_flags,
        run=root("tarmac.apps.up"),
    ),
    NEW,
    Command(
        "down",
        group=CommandGroup.RUN,
        help="stop everything that `up` runs on this host and remove everything it created",
        flags=add_data_dir,
        run=root("tarmac.apps.down"),
    ),
    Command(
        "image",
        group=CommandGroup.RUN,
        help="your own images: of containers in local cities, and of virtual machines",
        flags=add_image_flags,
        run=by_action(load=_IMAGES, list=_IMAGES, upload=client_verb("tarmac.cli.uploads.upload")),
    ),
    Command(
        "sim",
        group=CommandGroup.RUN,
        help="play a scenario on a simulated planet, or the random story of a seed",
        flags=add_sim_flags,
        run=root("tarmac.apps.sim"),
    ),
    WHY,
    STATUS,
    LOGS,
    TOP,
    NODE,
    Command(
        "dashboard",
        group=CommandGroup.INSPECT,
        help="open the dashboard locally, with the rights of your kubeconfig",
        epilog="Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 no kubeconfig, server, port or page, 2 the command line.",
        flags=add_dashboard_flags,
        run=root("tarmac.apps.dashboard"),
    ),
    CONSOLE,
    VNC,
    EGRESS,
    INGRESS,
    PLAN,
    CONVERT,
    ROLLOUT,
    MACHINE,
    LOCATION,
    TOKEN,
    USER,
    ROTATE,
    Command(
        "crds",
        group=CommandGroup.CLUSTER,
        help="print the objects that a Kubernetes cluster needs for `controllers`",
        flags=add_crds_flags,
        run=root("tarmac.apps.crds"),
    ),
    Command(
        "backup",
        group=CommandGroup.CLUSTER,
        help="a copy of everything a server has stored, in one file",
        flags=add_backup_flags,
        run=root("tarmac.apps.backups.backup"),
    ),
    Command(
        "restore",
        group=CommandGroup.CLUSTER,
        help="restore a stopped server from a backup",
        epilog=BACKUP_CODES,
        flags=add_restore_flags,
        run=root("tarmac.apps.backups.restore"),
    ),
    RESTORED,
    Command(
        "upgrade",
        group=CommandGroup.CLUSTER,
        help="check whether an upgrade is safe",
        flags=add_upgrade_flags,
        run=root("tarmac.apps.upgradecheck"),
    ),
    Command(
        "init",
        group=CommandGroup.HOST,
        help="make this host the first server of a cluster",
        epilog=HOST_CODES,
        flags=add_init_flags,
        run=root("tarmac.apps.host.initializing"),
    ),
    Command(
        "join",
        group=CommandGroup.HOST,
        help="make this host a node of a cluster, or a server",
        epilog=HOST_CODES,
        flags=add_join_flags,
        run=_join,
    ),
    Command(
        "leave",
        group=CommandGroup.HOST,
        help="remove this host from the cluster and clean up",
        epilog=HOST_CODES,
        flags=add_leave_flags,
        run=root("tarmac.apps.host.leaving"),
    ),
    Command(
        "etcd",
        group=CommandGroup.HOST,
        help="the members of an etcd that `init --with-etcd` began, on the host of one of its servers",
        epilog=ETCD_CODES,
        flags=add_etcd_flags,
        run=by_action(members=_ETCD, remove=_ETCD, replace=_ETCD, run=root("tarmac.apps.host.etcdmember")),
    ),
    Command(
        "server",
        group=CommandGroup.HOST,
        help="the API server and the controllers beside it",
        flags=add_server_flags,
        run=root("tarmac.apps.server"),
    ),
    Command(
        "controllers",
        group=CommandGroup.HOST,
        help="the controllers alone, for any Kubernetes API server",
        flags=add_controllers_flags,
        run=root("tarmac.apps.controllers"),
    ),
    Command(
        "kubernetes-controllers",
        group=CommandGroup.HOST,
        help="stock kube-controller-manager for a server: runs Deployments, StatefulSets, DaemonSets and Jobs",
        epilog="Exit codes: 1 no program, kubeconfig or server, 2 a wrong combination; else the program's.",
        flags=add_kubernetes_controllers_flags,
        run=root("tarmac.apps.kubernetescontrollers"),
    ),
    Command(
        "agent",
        group=CommandGroup.HOST,
        help="a node: runs the pods bound to it, for any Kubernetes API server",
        flags=add_agent_flags,
        run=root("tarmac.apps.agent"),
        abbreviations=False,
    ),
    Command(
        "device-plugin",
        group=CommandGroup.HOST,
        help="offer this host's GPUs to an agent or kubelet; agents run it by themselves",
        epilog=DEVICE_PLUGIN_CODES,
        flags=add_device_plugin_flags,
        run=root("tarmac.apps.deviceplugin"),
    ),
    Command(
        "containerd",
        group=CommandGroup.HOST,
        help="the containerd of a host that has joined, as its unit runs it",
        run=root("tarmac.apps.host.containerd"),
    ),
    Command(
        "store",
        group=CommandGroup.HOST,
        help="repair or move the SQLite store of a stopped server",
        flags=add_store_flags,
        run=by_action(repair=root("tarmac.apps.store"), migrate=root("tarmac.apps.storemigration")),
    ),
    Command(
        "config",
        group=CommandGroup.HOST,
        help="the configuration file of this host",
        flags=add_config_flags,
        run=root("tarmac.apps.configcheck"),
    ),
    Command(
        "doctor",
        group=CommandGroup.HOST,
        help="run every check of this host and of its cluster, and print one list",
        epilog="Exit codes: 0 nothing failed, 1 a check failed, 2 the command line is wrong.",
        flags=add_doctor_flags,
        run=root("tarmac.apps.doctor"),
    ),
    Command(
        "version",
        group=CommandGroup.OTHER,
        help="print the versions of Tarmac and of its Kubernetes API",
        run=root("tarmac.apps.version"),
    ),
    Command(
        "completion",
        group=CommandGroup.OTHER,
        help="print a shell completion script",
        flags=_add_completion_flags,
        run=root("tarmac.apps.completion"),
    ),
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    return parser_of(COMMANDS)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Ends the program with code 2 when they are wrong."""
    return parse(COMMANDS, arguments)


def run(options: argparse.Namespace) -> int:
    """Run the parsed command; return the exit code."""
    [command] = [each for each in COMMANDS if each.name == options.command]
    return command.run(options)
