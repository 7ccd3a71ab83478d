"""The files that a runtime looks for: a list of plugins, and their executables.

The relay is all that runs for each pod outside the agent, so it is as small as an executable can be: the system's
Python without site packages, and built-in modules only. containerd calls `loopback` beside every network; the agent has
already set the loopback up, so it does nothing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final

CNI_VERSION: Final = "1.0.0"
SUPPORTED: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
NAME: Final = "tarmac"
_CONFLIST: Final = "10-tarmac.conflist"
_VERSIONS: Final = json.dumps({"cniVersion": CNI_VERSION, "supportedVersions": SUPPORTED})

_RELAY: Final = """\
#!/usr/bin/python3 -IS
# Hands a question about a pod's network to the node's agent, and back its answer.
import posix
from _socket import AF_UNIX, SOCK_STREAM, socket

command = posix.environ.get(b"CNI_COMMAND")
if command == b"VERSION":
    posix.write(1, {versions!r})
    posix._exit(0)
question = [name + b"=" + value for name, value in posix.environ.items() if name[:4] == b"CNI_"]
agent = socket(AF_UNIX, SOCK_STREAM)
try:
    agent.connect({path!r})
    agent.sendall(b"\\0".join(question))
    agent.shutdown(1)
    answer = b""
    while part := agent.recv(65536):
        answer += part
except OSError as error:
    answer = b""
if answer:
    posix.write(1, answer[1:])
    posix._exit(answer[0])
if command == b"DEL":
    posix._exit(0)
posix.write(1, {away!r})
posix._exit(1)
"""

_LOOPBACK: Final = """\
#!/bin/sh
# The agent brings the loopback up with the pod's other links.
case "$CNI_COMMAND" in
ADD) echo '{answer}' ;;
VERSION) echo '{versions}' ;;
esac
"""


def write_files(bin_dir: Path, conf_dir: Path, socket_path: Path) -> None:
    """Write relay and configuration where the runtime looks. Idempotent; correct files are not touched."""
    away = json.dumps({"cniVersion": CNI_VERSION, "code": 11, "msg": f"the agent does not answer at {socket_path}"})
    relay = _RELAY.format(path=os.fsencode(socket_path), versions=_VERSIONS.encode(), away=away.encode())
    answer = json.dumps({"cniVersion": CNI_VERSION, "interfaces": [{"name": "lo", "sandbox": ""}]})
    _write(bin_dir / NAME, relay, 0o755)
    _write(bin_dir / "loopback", _LOOPBACK.format(answer=answer, versions=_VERSIONS), 0o755)
    plugins = {"cniVersion": CNI_VERSION, "name": NAME, "plugins": [{"type": NAME}]}
    # Last: containerd calls the network ready once it finds this list, and the plugins must exist by then.
    _write(conf_dir / _CONFLIST, json.dumps(plugins, indent=2) + "\n", 0o644)


def written(conf_dir: Path) -> bool:
    """Return True if an agent wrote them: other CNI plugins of the cluster may use the same folders."""
    return (conf_dir / _CONFLIST).exists()


def remove_files(bin_dir: Path, conf_dir: Path) -> None:
    """Delete them."""
    # The list first: containerd must not find it without its plugin.
    for path in (conf_dir / _CONFLIST, bin_dir / NAME, bin_dir / "loopback"):
        path.unlink(missing_ok=True)


def _write(path: Path, content: str, mode: int) -> None:
    """Replace a file atomically: the runtime may read it at any time, and a running executable cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() == content.encode():
        return
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(content)
    aside.chmod(mode)
    aside.replace(path)
