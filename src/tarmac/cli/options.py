"""The command line: every command, its flags and its help text. Parsing only; the commands are elsewhere.

Exit codes everywhere: 0 done, 1 failed, 2 the command line is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from tarmac import __version__
from tarmac.base.quantity import Quantity
from tarmac.cli.agent import add_agent
from tarmac.cli.authentication import add_authentication_flags
from tarmac.cli.backup import add_backup
from tarmac.cli.cities import city_codes
from tarmac.cli.controllers import add_controller_flags, add_controllers
from tarmac.cli.host import add_machine
from tarmac.cli.image import REGISTRY_PORT, add_image
from tarmac.cli.unknownflags import BadFlag, unknown_flags
from tarmac.cli.verbs.options import add_verbs

DEFAULT_LISTEN = "127.0.0.1:6443"
DEFAULT_CITIES = ("DFW", "SEA", "LHR")
OUTSIDE = "192.168.122.0/24,fd00:122::/64"
REGISTRY_QUOTA = "20Gi"
MAX_PROCESSES = 256


def default_data_dir() -> Path:
    """Return `/var/lib/tarmac` for root, else a folder under the user's data directory."""
    if os.geteuid() == 0:
        return Path("/var/lib/tarmac")
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "tarmac"


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments. Ends the program with code 2 when they are wrong."""
    top = parser()
    options, unrecognised = top.parse_known_args(arguments)
    if getattr(options, "config", None) and options.command in ("server", "agent"):
        options = _with_file(top, options, arguments)
    if not unrecognised:
        return options
    if options.command != "agent":
        top.error(f"unrecognized arguments: {' '.join(unrecognised)}")
    words = arguments[arguments.index("agent") + 1 :]
    try:
        options.unknown = tuple(unknown_flags(words, unrecognised, options.known_flags))
    except BadFlag as error:
        top.exit(2, f"error: {error}\n")
    return options


def _with_file(
    top: argparse.ArgumentParser, options: argparse.Namespace, arguments: Sequence[str]
) -> argparse.Namespace:
    """Parse the arguments over the file's values.

    An agent's file may be a KubeletConfiguration, which is read elsewhere.
    """
    from tarmac.cli.configfile import KINDS, BadConfigFile, is_ours, read_file

    commands = command_parsers(top)
    command = commands[options.command]
    try:
        if options.command == "agent" and not is_ours(options.config):
            return options
        found = [each for each in read_file(options.config, commands) if KINDS[each.kind] == options.command]
        if not found:
            kind = next(kind for kind, name in KINDS.items() if name == options.command)
            raise BadConfigFile(f"{options.config}: there is no {kind} in it")
    except BadConfigFile as error:
        top.exit(os.EX_CONFIG if options.command == "agent" else 2, f"error: {error}\n")
    usual = {name: command.get_default(name) for name in found[0].values}
    command.set_defaults(**found[0].values)
    merged, _ = top.parse_known_args(arguments)
    for name, default in usual.items():  # a given flag replaces a list of the file, it does not add to it
        if isinstance(default, list) and getattr(options, name) != default:
            setattr(merged, name, getattr(options, name))
    merged.config = None
    return merged


class _Parser(argparse.ArgumentParser):
    """A parser of a command line; the parsers of its commands are of the same class."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error in the form of all commands; exit with code 2."""
        self.print_usage(sys.stderr)
        self.exit(2, f"error: {message.removeprefix('argument ')}\n")


def command_parsers(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command."""
    # argparse has no public list of them.
    [commands] = [each for each in top._actions if isinstance(each, argparse._SubParsersAction)]  # pyright: ignore[reportPrivateUsage]
    return dict(commands.choices)


def _top() -> argparse.ArgumentParser:
    return _Parser(
        prog="tarmac", description="Runs containers and virtual machines in many cities from one declarative object."
    )


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = _top()
    top.add_argument("--version", action="version", version=f"tarmac {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)

    up = commands.add_parser("up", help="run everything on this host, in the foreground")
    _add_server_flags(up)
    _add_node_flags(up)

    down = commands.add_parser(
        "down", help="stop everything that `up` runs on this host and remove everything it created"
    )
    _add_data_dir(down)
    add_image(commands, _add_data_dir)

    server = commands.add_parser("server", help="the API server and the controllers beside it")
    _add_server_flags(server)
    _add_sharing_flags(server)
    add_authentication_flags(server)
    server.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a file with a ServerConfig: a field for each flag; flags take precedence",
    )

    add_controllers(commands)
    add_agent(commands)

    sim = commands.add_parser("sim", help="play a scenario on a simulated planet, or the random story of a seed")
    _add_sim_flags(sim)

    crds = commands.add_parser("crds", help="print the objects that a Kubernetes cluster needs for `controllers`")
    crds.add_argument(
        "--rbac", nargs="?", const="workloads", default="", metavar="NAMES",
        help="besides the kinds: the roles of these controllers, and an account that may run them (default: workloads, "
        "no more than those of Workloads need in a cluster with controllers of its own)",
    )  # fmt: skip
    _add_store(commands)
    add_backup(commands, _add_store_url)
    _add_config(commands)
    add_machine(commands, listen_address, _add_store_url)
    add_verbs(commands)
    commands.add_parser("version", help="print the versions of Tarmac and of its Kubernetes API")
    completion = commands.add_parser("completion", help="print a shell completion script")
    completion.add_argument(
        "shell", choices=("bash", "zsh", "fish", "words"), help="the shell; words: for the scripts themselves"
    )
    completion.add_argument("words", nargs=argparse.REMAINDER, metavar="WORD", help="the words typed so far")
    return top


def _add_store(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    store = commands.add_parser("store", help="repair or move the SQLite store of a stopped server")
    actions = store.add_subparsers(dest="action", metavar="ACTION", required=True)
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
    _add_data_dir(repair)
    _add_store_url(repair)
    repair.add_argument(
        "--accept-loss", action="store_true", help="copy the damaged files aside and continue without the lost data"
    )


def _add_config(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    config = commands.add_parser("config", help="the configuration file of this host")
    check = config.add_subparsers(dest="action", metavar="ACTION", required=True).add_parser(
        "check", help="print every mistake in the file, and requirements that the host does not meet",
        epilog="Exit codes: 0 no problem, 3 problems; a line for each on stderr.",
    )  # fmt: skip
    check.add_argument(
        "file", type=Path, nargs="?", default=Path("/etc/tarmac/config.yaml"), metavar="FILE",
        help="the file (default: %(default)s)",
    )  # fmt: skip


def _add_store_url(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store", default="", metavar="URL",
        help="sqlite:///PATH, etcd://HOST:PORT,HOST:PORT or memory:// (default: sqlite in the data directory)",
    )  # fmt: skip


def _add_data_dir(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--data-dir", type=Path, default=default_data_dir(), metavar="DIR",
        help="the folder of state, keys, certificates and the kubeconfig (default: %(default)s)",
    )  # fmt: skip


def _add_server_flags(command: argparse.ArgumentParser) -> None:
    _add_data_dir(command)
    command.add_argument(
        "--listen", type=listen_address, default=listen_address(DEFAULT_LISTEN), metavar="HOST:PORT",
        help=f"the address to serve HTTPS on; port 0 picks a free one (default: {DEFAULT_LISTEN})",
    )  # fmt: skip
    _add_store_url(command)
    add_controller_flags(command)
    command.add_argument("--log-format", choices=("text", "json"), default="text", help="format of log lines on stderr")
    command.add_argument("--verbose", action="store_true", help="log more")


def _add_node_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--cities", type=city_codes, default=list(DEFAULT_CITIES), metavar="CODE,CODE",
        help=f"IATA codes of the cities, each with a Location (default: {','.join(DEFAULT_CITIES)})",
    )  # fmt: skip
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


def _add_sim_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "scenario", type=Path, nargs="?", metavar="SCENARIO",
        help="a file such as those in examples/scenarios; without one, users and faults at random",
    )  # fmt: skip
    command.add_argument("--seed", type=int, metavar="N", help="the random seed (default: the scenario's, or 1)")
    command.add_argument("--seeds", type=seed_range, metavar="A-B", help="many random stories; prints failures only")
    command.add_argument("--jobs", type=count, default=os.cpu_count(), metavar="N", help="processes for --seeds")
    command.add_argument("--verbose", action="store_true", help="print the actions of users and faults")


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


def listen_address(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, with brackets around an IPv6 host."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535 or not host:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example {DEFAULT_LISTEN} or [::1]:6443")
    return host.removeprefix("[").removesuffix("]"), int(port)
