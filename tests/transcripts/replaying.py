"""Replays a transcript: shell commands and their output, compared after masking values that differ from run to run.

A transcript is a text file. A line that starts with `$ ` is a command (a here-document belongs to it); the lines after
it are its output, standard error included, and `[exit N]` when it failed. Masks stand for ages, times, uids and
versions, and for words of newer kubectls. Every transcript runs in a namespace of its own, named after the file. The
same files are replayed against the real kube-apiserver, unless the first lines say `# only: tarmac`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CASES = Path(__file__).parent / "cases"
# Components beside the real server in these sessions, without the controllers that would answer to Workloads and Pods.
SERVER_FLAGS = (
    "--controllers=garbage,namespace,serviceaccount,certificates,volume",
    "--feature-gates=ClassResources=true",
)

_MASKS = [
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    (re.compile(r'(resourceVersion["]?: ?["]?)\d+'), r"\1<version>"),
    (re.compile(r"(?<![\w.-])(\d+[smhd]){1,2}(?= ago|\s*$|\s{2,})", re.MULTILINE), "<age>"),
    (re.compile(r"<invalid>"), "<age>"),
    (re.compile(r'(" (force )?deleted) from \S+ namespace'), r"\1"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "https://<server>"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"/tmp/[\w./-]+"), "<file>"),
    (re.compile(r"[ \t]+$", re.MULTILINE), ""),
]


@dataclass
class Step:
    """One command and its output."""

    command: str
    output: str = ""


@dataclass
class Transcript:
    """A parsed file."""

    path: Path
    preamble: list[str] = field(default_factory=list[str])
    steps: list[Step] = field(default_factory=list[Step])

    @property
    def only_tarmac(self) -> bool:
        """Return true if it shows features that a bare kube-apiserver does not have."""
        return any(line.startswith("# only: tarmac") for line in self.preamble)

    @property
    def namespace(self) -> str:
        """The namespace of its commands."""
        return "t-" + self.path.stem


def parse(path: Path) -> Transcript:
    """Read a transcript file."""
    return parse_text(path, path.read_text())


def parse_text(path: Path, text: str) -> Transcript:
    """Read a transcript."""
    transcript = Transcript(path)
    terminator = ""
    for line in text.splitlines():
        if terminator:
            transcript.steps[-1].command += "\n" + line
            terminator = "" if line == terminator else terminator
        elif line.startswith("$ "):
            transcript.steps.append(Step(line[2:]))
            here = re.search(r"<<'?(\w+)'?", line)
            terminator = here[1] if here else ""
        elif not transcript.steps:
            transcript.preamble.append(line)
        elif line.startswith("# "):
            transcript.steps.append(Step(line))
        else:
            transcript.steps[-1].output += line + "\n"
    return transcript


def render(transcript: Transcript) -> str:
    """Return the text of the file."""
    lines = [*transcript.preamble]
    for step in transcript.steps:
        prefix = "" if step.command.startswith("# ") else "$ "
        lines.append((prefix + step.command + "\n" + step.output).rstrip("\n"))
    return "\n".join(lines) + "\n"


def mask(text: str, namespace: str = "") -> str:
    """Replace values that differ from run to run."""
    for pattern, replacement in _MASKS:
        text = pattern.sub(replacement, text)
    lines = [re.sub(r" {2,}(?=<age>)", "   ", line) for line in text.splitlines()]
    return "\n".join(lines) + "\n" if lines else ""


def replay(transcript: Transcript, kubectl: str, kubeconfig: Path, directory: Path) -> Transcript:
    """Run every command in a fresh directory; return the transcript with the real outputs."""
    binaries = directory / "bin"
    binaries.mkdir(exist_ok=True)
    for name, program in {"kubectl": kubectl, "tarmac": str(Path(sys.executable).parent / "tarmac")}.items():
        link = binaries / name
        link.unlink(missing_ok=True)
        link.symlink_to(program)
    environment = {
        **os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "KUBECONFIG": str(kubeconfig), "HOME": str(directory),
        "NS": transcript.namespace, "TMPDIR": "/tmp",
    }  # fmt: skip
    return play(transcript, lambda command: mask(shell(command, environment, directory)))


def play(transcript: Transcript, run: Callable[[str], str]) -> Transcript:
    """Return the transcript with the results of `run` for each command."""
    steps = [
        Step(each.command, "" if each.command.startswith("# ") else run(each.command)) for each in transcript.steps
    ]
    return Transcript(transcript.path, transcript.preamble, steps)


def shell(command: str, environment: dict[str, str], directory: Path) -> str:
    """Return the output of a command, and `[exit N]` when it fails."""
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        text=True, env=environment, cwd=directory, timeout=150, check=False,
    )  # fmt: skip
    failed = f"[exit {done.returncode}]\n" if done.returncode else ""
    output = done.stdout if done.stdout.endswith("\n") or not done.stdout else done.stdout + "\n"
    return output + failed


def prepare_namespace(namespace: str, kubectl: str, kubeconfig: Path, directory: Path) -> Path:
    """Make the namespace and its default service account; returns a kubeconfig that points into it."""
    copy = directory / "kubeconfig"
    copy.write_bytes(kubeconfig.read_bytes())
    copy.chmod(0o600)

    def run(*arguments: str) -> None:
        environment = {**os.environ, "KUBECONFIG": str(copy), "HOME": str(directory)}
        subprocess.run([kubectl, *arguments], env=environment, capture_output=True, check=False, timeout=30)

    run("create", "namespace", namespace)
    run("create", "serviceaccount", "default", "-n", namespace)
    run("config", "set-context", "--current", f"--namespace={namespace}")
    return copy
