"""exec, logs, cp, port-forward, attach, top and debug, by the real kubectl on real containers of both kinds."""

from __future__ import annotations

import os
import pty
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.planet import Planet, busybox, eventually, pod
from tests.support.readable import readable

pytestmark = [pytest.mark.root, pytest.mark.timeout(180)]


@pytest.fixture(scope="module", params=["gvisor", "runc"])
def name(planet: Planet, request: pytest.FixtureRequest) -> Iterator[str]:
    made = f"streams-{request.param}"
    counting = "i=0; while :; do echo line $i; i=$((i+1)); sleep 0.2; done"
    echoing = busybox("echo", "echo ready; while read line; do echo heard $line; done; sleep 100", stdin=True)
    serving = busybox("web", "echo served > /tmp/index.html; exec httpd -f -p 8000 -h /tmp")
    planet.apply(pod(made, busybox("count", counting), echoing, serving, runtimeClassName=request.param))
    planet.wait(f"pod/{made}", "condition=Ready")
    yield made
    planet.remove(made)


def test_standard_input_reaches_the_command_and_ends(planet: Planet, name: str) -> None:
    assert planet.exec(name, "cat", container="count", stdin="one\ntwo\n") == "one\ntwo\n"


def test_exit_codes_and_standard_error_come_back(planet: Planet, name: str) -> None:
    done = planet.kubectl.run("exec", "-c", "count", name, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.code, done.out) == (7, "out\n")
    assert done.err.startswith("err\n")


def test_a_terminal_is_a_terminal(planet: Planet, name: str) -> None:
    leader, follower = pty.openpty()
    command = [planet.kubectl.binary, "--kubeconfig", str(planet.process.kubeconfig)]
    command += [
        "exec",
        "-it",
        "-c",
        "count",
        name,
        "--",
        "sh",
        "-c",
        "test -t 0 && echo terminal; read line; echo got $line",
    ]
    process = subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    try:
        seen = _read_until(leader, b"terminal")
        os.write(leader, b"hello\n")
        seen += _read_until(leader, b"got hello")
        assert process.wait(10) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def test_logs_follow_and_tail(planet: Planet, name: str) -> None:
    tail = planet.kubectl("logs", "-c", "count", "--tail=2", name).splitlines()
    assert len(tail) == 2
    assert all(re.fullmatch(r"line \d+", line) for line in tail)
    following = planet.kubectl.start("logs", "-f", "--since=1s", "-c", "count", name)
    try:
        assert following.stdout is not None
        numbers = [int(following.stdout.readline().split()[1]) for _ in range(8)]
    finally:
        following.kill()
        following.communicate()
    assert numbers == list(range(numbers[0], numbers[0] + 8))


def test_files_are_copied_both_ways(planet: Planet, name: str, tmp_path: Path) -> None:
    content = os.urandom(300_000)
    (tmp_path / "up").write_bytes(content)
    planet.kubectl("cp", "-c", "count", str(tmp_path / "up"), f"{name}:/tmp/there")
    planet.kubectl("cp", "-c", "count", f"{name}:/tmp/there", str(tmp_path / "down"))
    assert (tmp_path / "down").read_bytes() == content


def test_a_port_is_forwarded(planet: Planet, name: str) -> None:
    forwarding = planet.kubectl.start("port-forward", f"pod/{name}", ":8000")
    try:
        assert forwarding.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", forwarding.stdout.readline())
        assert found
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", int(found[1])), timeout=10) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
            assert answer.endswith(b"served\n")
    finally:
        forwarding.kill()
        forwarding.communicate()


def test_attaching_speaks_with_the_first_process(planet: Planet, name: str) -> None:
    attached = subprocess.Popen(
        [planet.kubectl.binary, "--kubeconfig", str(planet.process.kubeconfig), "attach", "-i", "-c", "echo", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert attached.stdin is not None
        assert attached.stdout is not None
        attached.stdin.write("you\n")
        attached.stdin.flush()
        assert attached.stdout.readline() == "heard you\n"
    finally:
        attached.kill()
        attached.communicate()


def test_top_shows_nodes_and_pods(planet: Planet, name: str) -> None:
    eventually(lambda: name in planet.kubectl.run("top", "pods").out, 60, "the first measurement")
    row = next(line for line in planet.kubectl("top", "pods").splitlines() if line.startswith(name))
    assert re.match(rf"{name}\s+\d+m\s+\d+Mi", row)
    assert re.search(r"^dfw-0\s+\d+m\s+\d+%", planet.kubectl("top", "nodes"), re.MULTILINE)


def test_a_debugging_container_joins_the_pod(planet: Planet, name: str) -> None:
    image = "--image=registry.local/tarmac/busybox:1"
    planet.kubectl("debug", name, image, "-c", "probe", "--", "wget", "-qO-", "http://127.0.0.1:8000/")
    eventually(lambda: planet.kubectl.run("logs", name, "-c", "probe").out == "served\n", 30, "what the probe saw")


def _read_until(descriptor: int, words: bytes, seconds: float = 20) -> bytes:
    seen, deadline = b"", time.monotonic() + seconds
    while words not in seen:
        assert time.monotonic() < deadline, seen
        if readable(descriptor, 0.2):
            seen += os.read(descriptor, 4096)
    return seen
