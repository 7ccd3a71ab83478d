"""The flags of the server and of everything around it: `up`, `server`, `sim`, `crds`, `store`, `config`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from tarmac.base.quantity import Quantity
from tarmac.cli.cities import city_codes
from tarmac.cli.controllers import add_controller_flags, seconds
from tarmac.cli.flags import DEFAULT_LISTEN, add_data_dir, add_kubeconfig_flags, add_store_url, listen_address
from tarmac.cli.image import REGISTRY_PORT

DEFAULT_CITIES = ("DFW", "SEA", "LHR")
OUTSIDE = "192.168.122.0/24,fd00:122::/64"
REGISTRY_QUOTA = "20Gi"
MAX_PROCESSES = 256


def add_up_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac up`."""
    _add_server_flags(command)
    _add_node_flags(command)


def add_server_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac server`."""
    _add_server_flags(command)
    _add_sharing_flags(command)
    add_authentication_flags(command)
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a file with a ServerConfig: a field for each flag; flags take precedence",
    )


def add_crds_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac crds`."""
    command.add_argument(
        "--rbac", nargs="?", const="workloads", default="", metavar="NAMES",
        help="besides the kinds: the roles of these controllers, and an account that may run them (default: workloads, "
        "no more than those of Workloads need in a cluster with controllers of its own)",
    )  # fmt: skip
    command.add_argument(
        "--remove", action="store_true",
        help="delete the kinds from the cluster of the kubeconfig, and all objects of them; controllers have to run",
    )  # fmt: skip
    command.add_argument(
        "--timeout", type=seconds, default=seconds("4m"), metavar="TIME",
        help="with --remove: time until it fails and prints the remaining objects (default: 4m)",
    )  # fmt: skip
    add_kubeconfig_flags(command)


def add_store_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac store`."""
    actions = command.add_subparsers(dest="action", metavar="ACTION", required=True)
    migrate = actions.add_parser(
        "migrate", help="move everything to an etcd, which several servers can share",
        epilog="Exit codes: 0 moved, or nothing left to move; 1 failed or refused, and the store is where it was.",
    )  # fmt: skip
    migrate.add_argument("--to", required=True, metavar="URL", help="etcd://HOST:PORT,HOST:PORT, as for --store")
    migrate.add_argument(
        "--config", type=Path, metavar="FILE",
        help="the server's configuration file, in which `store` is replaced (default: /etc/tarmac/config.yaml)",
    )  # fmt: skip
    migrate.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="the server's data directory, if it has no configuration file"
    )
    repair = actions.add_parser(
        "repair", help="print the damage and the loss; with --accept-loss, continue without the lost data"
    )
    add_data_dir(repair)
    add_store_url(repair)
    repair.add_argument(
        "--accept-loss", action="store_true", help="copy the damaged files aside and continue without the lost data"
    )


def add_config_flags(command: argparse.ArgumentParser) -> None:
    """Add the actions of `tarmac config`."""
    check = command.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser(
        "check", help="print every mistake in the file, and requirements that the host does not meet",
        epilog="Exit codes: 0 no problem, 3 problems; a line for each on stderr.",
    )  # fmt: skip
    check.add_argument(
        "file", type=Path, nargs="?", default=Path("/etc/tarmac/config.yaml"), metavar="FILE",
        help="the file (default: %(default)s)",
    )  # fmt: skip


def _add_server_flags(command: argparse.ArgumentParser) -> None:
    add_data_dir(command)
    command.add_argument(
        "--listen", type=listen_address, default=listen_address(DEFAULT_LISTEN), metavar="HOST:PORT",
        help=f"the address to serve HTTPS on; port 0 picks a free one (default: {DEFAULT_LISTEN})",
    )  # fmt: skip
    add_store_url(command)
    add_controller_flags(command)
    command.add_argument("--log-format", choices=("text", "json"), default="text", help="format of log lines")
    command.add_argument("--verbose", action="store_true", help="log more; `tarmac up` then logs on stderr")


def _add_node_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cities", type=city_codes, default=list(DEFAULT_CITIES), metavar="CODE,CODE",
        help=f"IATA codes of the cities, each with a Location (default: {','.join(DEFAULT_CITIES)})",
    )  # fmt: skip
    command.add_argument(
        "--kubeconfig", type=Path, metavar="FILE",
        help="add the server's context to this kubeconfig and make it the current one (default: the one that kubectl "
        "uses, for a server in the default data directory)",
    )  # fmt: skip
    command.add_argument("--no-kubeconfig", action="store_true", help="change no kubeconfig of yours")
    command.add_argument(
        "--runtime", choices=("auto", "containerd", "sim"), default="auto",
        help="the runtime of instances; sim simulates them and needs no rights (default: auto)",
    )  # fmt: skip
    command.add_argument(
        "--outside", nargs="?", const=OUTSIDE, metavar="CIDR[,CIDR6]",
        help=f"add an external segment, with every node as a gateway and a server to try external services "
        f"(default: {OUTSIDE})",
    )  # fmt: skip
    command.add_argument(
        "--sim-nodes", type=count, default=3, metavar="N", help="simulated nodes in each city (default: 3)"
    )
    command.add_argument(
        "--agent-arg", action="append", default=[], metavar="ARG",
        help="another flag for every agent, such as --agent-arg=--config=FILE; takes precedence; repeatable",
    )  # fmt: skip
    command.add_argument(
        "--sim-node-config", type=Path, metavar="FILE",
        help="sizes, reservations, classes and devices of simulated nodes (default: 32 CPUs, all for pods)",
    )  # fmt: skip
    command.add_argument(
        "--registry", type=port, nargs="?", const=REGISTRY_PORT, metavar="PORT",
        help=f"run a registry for your own images, on this port of 127.0.0.1 (without one: {REGISTRY_PORT})",
    )  # fmt: skip
    command.add_argument(
        "--registry-quota", type=size, default=size(REGISTRY_QUOTA), metavar="SIZE",
        help=f"limit of pushed images in each namespace (default: {REGISTRY_QUOTA})",
    )  # fmt: skip
    command.add_argument(
        "--with-kubernetes-controllers", action="store_true",
        help="run stock kube-controller-manager for Deployments, StatefulSets, DaemonSets, Jobs and autoscalers",
    )  # fmt: skip


def add_sim_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of `tarmac sim`."""
    command.add_argument(
        "scenario", type=Path, nargs="?", metavar="SCENARIO",
        help="a file such as those in examples/scenarios; without one, users and faults at random",
    )  # fmt: skip
    command.add_argument("--seed", type=int, metavar="N", help="the random seed (default: the scenario's, or 1)")
    command.add_argument("--seeds", type=seed_range, metavar="A-B", help="many random stories; prints failures only")
    command.add_argument("--jobs", type=count, default=os.cpu_count(), metavar="N", help="processes for --seeds")
    command.add_argument("--verbose", action="store_true", help="print the actions of users and faults")
    serving = command.add_argument_group("a scenario in real time")
    serving.add_argument(
        "--serve", action="store_true",
        help="play the scenario on a running server until Ctrl-C, to look at with kubectl, tarmac and the dashboard",
    )  # fmt: skip
    serving.add_argument(
        "--listen", type=listen_address, default=listen_address("127.0.0.1:0"), metavar="HOST:PORT",
        help="with --serve: the address to serve HTTPS on (default: a free port of 127.0.0.1)",
    )  # fmt: skip
    serving.add_argument(
        "--data-dir", type=Path, metavar="DIR",
        help="with --serve: a directory to keep the planet in (default: a temporary one, removed at the end)",
    )  # fmt: skip


def _add_sharing_flags(command: argparse.ArgumentParser) -> None:
    sharing = command.add_argument_group("several servers on one store must share these")
    sharing.add_argument(
        "--pki-dir", type=Path, metavar="DIR", help="CA, keys and certificates (default: DATA-DIR/pki)"
    )
    sharing.add_argument(
        "--encryption-key-file",
        type=Path,
        metavar="FILE",
        help="key of Secrets at rest (default: DATA-DIR/secrets.key)",
    )
    command.add_argument(
        "--processes", type=processes, default=1, metavar="N",
        help="number of processes on one address; more than one needs etcd (default: 1)",
    )  # fmt: skip
    command.add_argument(
        "--tls-san", action="append", default=[], metavar="NAME", help="another name or address for the certificate"
    )


def seed_range(text: str) -> range:
    """Parse `1-300`, both included."""
    first, _, last = text.partition("-")
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of seeds, such as 1-300")
    return range(int(first), int(last) + 1)


def count(text: str) -> int:
    """Parse a non-negative number."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes")
    return int(text)


def processes(text: str) -> int:
    """Parse a number of server processes."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, is {text}")
    if int(text) > MAX_PROCESSES:
        raise argparse.ArgumentTypeError(f"must be at most {MAX_PROCESSES}, is {text}")
    return int(text)


def size(text: str) -> int:
    """Parse a number of bytes."""
    try:
        found = Quantity.parse(text).value()
    except ValueError:
        found = 0
    if found <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as {REGISTRY_QUOTA}")
    return found


def port(text: str) -> int:
    """Parse a port to listen on."""
    if not text.isdecimal() or not 0 < int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port, such as {REGISTRY_PORT}")
    return int(text)


# The flags for user authentication, named as kube-apiserver names them.


def add_authentication_flags(command: argparse.ArgumentParser) -> None:
    """Add the flags of a server."""
    people = command.add_argument_group("users of an OpenID Connect issuer")
    people.add_argument(
        "--oidc-issuer-url",
        default="",
        metavar="URL",
        help="the issuer of accepted tokens: https, exactly as tokens name it",
    )
    people.add_argument("--oidc-client-id", default="", metavar="ID", help="the audience that its tokens must have")
    people.add_argument(
        "--oidc-client-secret-file", default="", metavar="FILE",
        help="the secret of that client, to sign users in to the dashboard (default: a public client, with PKCE alone)",
    )  # fmt: skip
    people.add_argument(
        "--oidc-username-claim", default="sub", metavar="CLAIM", help="the claim that is the user name (default: sub)"
    )
    people.add_argument(
        "--oidc-username-prefix", default="", metavar="TEXT",
        help="prefix of user names; - for none (default: the issuer's URL and #, but none for the claim email)",
    )  # fmt: skip
    people.add_argument(
        "--oidc-groups-claim", default="", metavar="CLAIM", help="the claim that lists the groups (default: no groups)"
    )
    people.add_argument("--oidc-groups-prefix", default="", metavar="TEXT", help="prefix of the names of groups")
    people.add_argument(
        "--oidc-ca-file",
        default="",
        metavar="FILE",
        help="CAs to verify the issuer with (default: the system's)",
    )
    people.add_argument(
        "--oidc-required-claim", action="append", type=claim, default=[], metavar="CLAIM=VALUE",
        help="a claim that every token must have; repeatable",
    )  # fmt: skip
    people.add_argument(
        "--oidc-signing-algs", type=names, default=("RS256",), metavar="ALG,ALG",
        help="accepted signing algorithms: RS, ES and PS with 256, 384 or 512 (default: RS256)",
    )  # fmt: skip
    people.add_argument(
        "--authentication-config", default="", metavar="FILE",
        help="an AuthenticationConfiguration instead of these flags: several issuers, expressions; read again when it "
        "changes",
    )  # fmt: skip


def claim(text: str) -> tuple[str, str]:
    """Parse `CLAIM=VALUE`."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not CLAIM=VALUE, such as hd=example.com")
    return name, value


def names(text: str) -> tuple[str, ...]:
    """Parse `A,B`."""
    return tuple(each.strip() for each in text.split(",") if each.strip())
