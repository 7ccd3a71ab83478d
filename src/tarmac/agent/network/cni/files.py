"""The files a runtime looks for: a list of plugins, and their executables.

The relay is the whole of what runs for each pod outside the agent, so it is as small as an executable can be: Perl,
which every Debian has, without a module. It takes two milliseconds of a processor, where Python takes eight before it
reads the first line. `loopback` is asked for by containerd beside every network; the relay's answer has brought the
loopback up already, so it has nothing to do.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Final

CNI_VERSION: Final = "1.0.0"
SUPPORTED: Final = ("0.3.0", "0.3.1", "0.4.0", "1.0.0")
NAME: Final = "tarmac"
_CONFLIST: Final = "10-tarmac.conflist"
_VERSIONS: Final = json.dumps({"cniVersion": CNI_VERSION, "supportedVersions": SUPPORTED})

_RELAY: Final = """\
#!/usr/bin/perl
# Hands a question about a pod's network to the node's agent, and back its answer.
my $command = $ENV{{CNI_COMMAND}};
if ($command eq "VERSION") {{
    print {versions};
    exit 0;
}}
my $answer = "";
if (socket(AGENT, {family}, {kind}, 0) && connect(AGENT, pack("Sa*", {family}, {path}))) {{
    $SIG{{PIPE}} = "IGNORE";
    syswrite(AGENT, join("\\0", map {{ "$_=$ENV{{$_}}" }} grep {{ /^CNI_/ }} keys %ENV));
    shutdown(AGENT, 1);
    while (sysread(AGENT, my $part, 65536)) {{
        $answer .= $part;
    }}
}}
if (length $answer) {{
    print substr($answer, 1);
    exit ord $answer;
}}
if ($command eq "DEL") {{
    exit 0;
}}
print {away};
exit 1;
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
    """Put relay and configuration where the runtime looks. Safe to repeat; what is right is left alone."""
    away = json.dumps({"cniVersion": CNI_VERSION, "code": 11, "msg": f"the agent does not answer at {socket_path}"})
    relay = _RELAY.format(
        family=int(socket.AF_UNIX),
        kind=int(socket.SOCK_STREAM),
        path=_quoted(str(socket_path)),
        versions=_quoted(_VERSIONS),
        away=_quoted(away),
    )
    answer = json.dumps({"cniVersion": CNI_VERSION, "interfaces": [{"name": "lo", "sandbox": ""}]})
    _write(bin_dir / NAME, relay, 0o755)
    _write(bin_dir / "loopback", _LOOPBACK.format(answer=answer, versions=_VERSIONS), 0o755)
    plugins = {"cniVersion": CNI_VERSION, "name": NAME, "plugins": [{"type": NAME}]}
    _write(conf_dir / _CONFLIST, json.dumps(plugins, indent=2) + "\n", 0o644)


def remove_files(bin_dir: Path, conf_dir: Path) -> None:
    """Take them away."""
    for path in (conf_dir / _CONFLIST, bin_dir / NAME, bin_dir / "loopback"):
        path.unlink(missing_ok=True)


def _quoted(text: str) -> str:
    """A string of Perl's that means what it says."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _write(path: Path, content: str, mode: int) -> None:
    """Never half: the runtime may look at any time, and a file that is being run cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.read_bytes() == content.encode():
        return
    aside = path.with_name(f".{path.name}.new")
    aside.write_text(content)
    aside.chmod(mode)
    aside.replace(path)
