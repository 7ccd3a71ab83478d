"""An agent whose node cannot be sized exits with a code and one line, before it changes anything."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.sizing.programs import HEAD, answer
from tests.agent.sizing.stage import GATE, Stage
from tests.support.agent_process import until

CONFUSED, FAILED = 78, 70
Given = Callable[[Stage], object]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as made:
        yield made


def wrong(stage: Stage, code: int, *flags: str) -> str:
    """Return the error of an agent that may not start, and assert that it changed nothing."""
    done = stage.run(*(flags or stage.flags()))
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(said) == 1, done.stderr
    assert done.stderr.endswith(f"{said[0]}\n")
    assert stage.untouched()
    return said[0].removeprefix("error: ")


def test_one_flag_without_the_other(stage: Stage) -> None:
    stage.programs.saying("a")
    for flag in stage.flags()[1:]:
        assert wrong(stage, CONFUSED, GATE, flag) == (
            "--sizing-provider-config and --sizing-provider-bin-dir are given both or not at all"
        )


def test_flags_without_the_gate(stage: Stage) -> None:
    stage.programs.saying("a")
    for gate in ([], ["--feature-gates=KubeletSizingProvider=false"]):
        assert "--feature-gates=KubeletSizingProviders=true" in wrong(stage, CONFUSED, *gate, *stage.flags()[1:])
    assert not stage.root.exists()


def test_a_period_with_nobody_to_ask(stage: Stage) -> None:
    stage.settings(sizingProviderPeriod="10s")
    assert wrong(stage, CONFUSED, GATE).startswith("sizingProviderPeriod: no providers to run")


def _with_document(document: Any) -> Given:
    return lambda stage: stage.programs.write(document)


def _with_mode(which: str, mode: int) -> Given:
    def change(stage: Stage) -> None:
        path: Path = getattr(stage.programs, which)
        path.chmod(mode)

    return change


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (_with_mode("bin_dir", 0o777), "--sizing-provider-bin-dir: {bin_dir} can be written by others (mode 0777)"),
        (lambda stage: stage.programs.bin_dir.rename(stage.folder / "x"), "bin-dir: {bin_dir}: No such file"),
        (_with_mode("config", 0o664), "--sizing-provider-config: {config} can be written by others (mode 0664)"),
        (lambda stage: stage.programs.config.unlink(), "--sizing-provider-config: {config}: No such file"),
        (lambda stage: stage.programs.config.write_text("{"), "{config}: is neither YAML nor JSON"),
        (_with_document({"kind": "Pod"}), "kind: expected SizingProviderConfig"),
        (lambda stage: stage.programs.name("../a"), "providers[1].name: expected the name of a file"),
        (lambda stage: stage.programs.name("b"), 'sizing provider "b": {bin_dir}/b: No such file or directory'),
        (lambda stage: (stage.programs.bin_dir / "a").chmod(0o644), 'provider "a": {bin_dir}/a has no execute bit'),
        (lambda stage: (stage.programs.bin_dir / "a").chmod(0o4755), 'sizing provider "a": {bin_dir}/a is setuid'),
    ],
)  # fmt: skip
def test_files_that_cannot_be_believed_or_read(stage: Stage, given: Given, says: str) -> None:
    stage.programs.shell("a", f"touch {stage.folder}/ran")
    given(stage)
    programs = stage.programs
    assert says.format(bin_dir=programs.bin_dir, config=programs.config) in wrong(stage, CONFUSED)
    assert not (stage.folder / "ran").exists()
    assert not stage.root.exists()


def test_a_folder_or_a_file_that_is_none(stage: Stage) -> None:
    stage.programs.saying("a")
    config, folder = stage.programs.config, stage.programs.bin_dir
    for flags, says in (
        ((f"--sizing-provider-config={config}", "--sizing-provider-bin-dir=bin"), "bin-dir: 'bin' is not an absolute"),
        ((f"--sizing-provider-config={config}", f"--sizing-provider-bin-dir={config}"), f"{config} is not a directory"),
        ((f"--sizing-provider-config={folder}", f"--sizing-provider-bin-dir={folder}"), "Is a directory"),
    ):
        assert says in wrong(stage, CONFUSED, GATE, *flags)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (("no program",), "cannot be executed: Exec format error"),
        (("#!/no/interpreter",), "cannot be executed: No such file or directory"),
        (("#!/bin/sh", "echo out; echo why >&2; exit 3"), "exited with code 3: why"),
        (("#!/bin/sh", "kill -9 $$"), "killed by signal 9"),
        (("#!/bin/sh",), "stdout is empty"),
        (("#!/bin/sh", "printf '\\377'"), "stdout is not UTF-8"),
        (("#!/bin/sh", "echo s3cret"), "stdout is not one JSON object"),
        (("#!/bin/sh", f"echo '{answer()}' s3cret"), "stdout has more after the JSON object"),
        (("#!/bin/sh", "exec cat /dev/zero"), "stdout is more than 1 MiB"),
        (("#!/bin/sh", f"echo '{answer(apiVersion='v2')}'"), f'apiVersion is "v2", not "{HEAD["apiVersion"]}"'),
        (("#!/bin/sh", f"echo '{answer(kind='Pod')}'"), 'kind is "Pod", not "SizingProviderResponse"'),
        (("#!/bin/sh", f"echo '{answer(kubeReserved={})}'"), 'unknown field "kubeReserved"; write kubeReserve'),
        (
            ("#!/bin/sh", f"echo '{answer(kubeReserve={'cpu': 'x'})}'"),
            'failed to parse quantity "x" for "cpu" resource',
        ),
        (("#!/bin/sh", f"echo '{answer(kubeReserve={'cpu': '-1'})}'"), 'quantity for "cpu" cannot be negative: -1'),
        (("#!/bin/sh", f"echo '{answer(systemReserve={'x': '1'})}'"), 'systemReserve: cannot reserve "x" resource'),
    ],
)
def test_a_provider_that_fails(stage: Stage, lines: tuple[str, ...], says: str) -> None:
    stage.programs.saying("first", kubeReserve={"cpu": "0"})
    stage.programs.script("second", *lines)
    told = wrong(stage, FAILED)
    assert told.startswith('sizing provider "second": ')
    assert says in told
    assert "s3cret" not in told
    assert not stage.root.exists()


def test_more_than_the_machine_has(stage: Stage) -> None:
    stage.settings(systemReserved={"cpu": "1"})
    stage.programs.saying("a", kubeReserve={"cpu": "4095500m"})
    assert wrong(stage, CONFUSED).startswith(
        'invalid Node Allocatable configuration. Resource "cpu" has a reservation of 4096500m but capacity of'
    )


def test_while_providers_run_the_agent_has_not_spoken_to_anybody(stage: Stage) -> None:
    lines = (
        "import json, os, sys",
        "agent = f'/proc/{os.getppid()}'",
        "links = [os.readlink(f'{agent}/fd/{n}') for n in os.listdir(f'{agent}/fd')]",
        "ours = {each[8:-1] for each in links if each.startswith('socket:[')}",
        "tables = [f'{agent}/net/{name}' for name in ('tcp', 'tcp6', 'udp', 'udp6')]",
        "known = {line.split()[9] for table in tables for line in open(table).readlines()[1:]}",
        "unix = [line.split() for line in open(f'{agent}/net/unix')]",
        "named = [line[7] for line in unix if len(line) > 7 and line[6] in ours]",
        "sys.exit(f'network {sorted(ours & known)} named {named}')",
    )
    stage.programs.python("a", *lines)
    assert wrong(stage, FAILED) == 'sizing provider "a": exited with code 1: network [] named []'


def test_a_child_of_a_provider_that_holds_its_pipes_does_not_hold_the_start_up(stage: Stage) -> None:
    stage.programs.shell("a", f"sleep 300 & echo $! > {stage.folder}/child; echo '{answer()}'")
    stage.programs.shell("b", "exit 5")
    began = time.monotonic()
    assert wrong(stage, FAILED) == 'sizing provider "b": exited with code 5'
    assert time.monotonic() - began < 40
    until(lambda: _gone(int((stage.folder / "child").read_text())))


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_a_provider_that_never_answers_is_ended_after_a_minute_with_its_children(stage: Stage) -> None:
    child = f"sh -c 'trap \"\" TERM; echo $$ >> {stage.folder}/pids; sleep 300' &"
    stage.programs.shell(
        "a", "trap '' TERM INT HUP", child, f"echo $$ >> {stage.folder}/pids", "echo waiting >&2; wait"
    )
    began = time.monotonic()
    done = stage.run(*stage.flags(), seconds=120)
    assert 60 <= time.monotonic() - began < 100
    assert done.returncode == FAILED
    assert done.stderr.endswith('error: sizing provider "a": did not answer within 60 s: waiting\n')
    for pid in (stage.folder / "pids").read_text().split():
        until(lambda pid=pid: _gone(int(pid)))
    assert stage.untouched()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGKILL, -9)])
def test_an_agent_that_is_ended_while_it_asks_leaves_no_provider_behind(stage: Stage, number: int, code: int) -> None:
    stage.programs.shell(
        "a", f"echo $$ > {stage.folder}/pid.new; mv {stage.folder}/pid.new {stage.folder}/pid", "exec sleep 300"
    )
    agent = subprocess.Popen(stage.command(*stage.flags()), stderr=subprocess.DEVNULL)
    try:
        until((stage.folder / "pid").exists, 40)
        agent.send_signal(number)
        assert agent.wait(30) == code
    finally:
        agent.kill()
        agent.wait()
    until(lambda: _gone(int((stage.folder / "pid").read_text())))
    assert stage.untouched()


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_the_stage_notices_who_knocks(stage: Stage) -> None:
    """Without providers the agent connects, so `untouched` can be False, which the tests above rely on."""
    agent = subprocess.Popen(stage.command(), stderr=subprocess.DEVNULL)
    try:
        until(lambda: not stage.untouched(), 40)
    finally:
        agent.kill()
        agent.wait()
