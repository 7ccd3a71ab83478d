"""Promises about the dashboard, the network question and reading logs, as rows."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests

from benchmarks.browsing import (
    Dashboard,
    appeared,
    dashboard_of,
    forget_tasks,
    frames_while_scrolling,
    heap_mb,
    hide,
    loaded_bytes,
    longest_task,
    milliseconds_of,
    traced_tasks,
)
from benchmarks.logreading import LINES, STREAMS, read_logs
from benchmarks.processes import compiled, cpu_seconds
from benchmarks.report import Row
from benchmarks.workloads import CITIES, PER_NODE, workload
from tarmac.api.networking.cities import CITIES as CITY_CODES
from tests.support.kubectl import kubectl_path
from tests.support.tarmac_process import TarmacProcess

RESTING, ROLLED, POLICIES, HUNDRED = 8000, 2000, 1000, 100
_WATCHED_SECONDS, _HIDDEN_SECONDS = 20.0, 31.0
Say = Callable[[str], None]


def dashboard_rows(directory: Path, repeat: int, say: Say) -> list[Row]:
    """A small planet, an empty server, and a planet with ten thousand instances."""
    directory.mkdir()
    say("opening the dashboard on three cities")
    rows = _small(directory, repeat)
    say(f"opening it on {HUNDRED} cities")
    rows += _hundred(directory, repeat)
    say("leaving the dashboard alone")
    rows += _idle(directory)
    say(f"landing {RESTING + ROLLED:,} instances in {len(CITIES)} cities for the dashboard")
    with _planet(directory) as planet:
        rows += _large(planet, repeat, say)
        say(f"asking who reaches whom with {POLICIES:,} policies")
        rows += _question(planet, max(5, repeat))
        say(f"reading {LINES:,} lines of {STREAMS} streams")
        rows += _logs(planet, directory, repeat)
    return rows


def _small(directory: Path, repeat: int) -> list[Row]:
    with (
        TarmacProcess(directory / "three", "--runtime", "sim", command="up") as planet,
        dashboard_of(planet.kubeconfig) as page,
    ):
        with page.opened("#/planet", ".map .land") as opened:
            size = loaded_bytes(opened) / 1024
        drawn = [page.milliseconds("#/planet", ".map circle") for _ in range(repeat)]
    return [
        Row("dashboard: first load, packed, with fonts and map", "KB", [size], 150),
        Row("dashboard: open to first city drawn, 3 cities", "ms", drawn, 500),
    ]


def _hundred(directory: Path, repeat: int) -> list[Row]:
    """Measure the first picture of a large planet, cold."""
    flags = ("--runtime", "sim", "--cities", ",".join(list(CITY_CODES)[:HUNDRED]), "--sim-nodes", "1")
    with (
        TarmacProcess(directory / "hundred", *flags, command="up") as planet,
        dashboard_of(planet.kubeconfig) as page,
    ):
        _apply(planet, workload(1, tuple(CITY_CODES)[:HUNDRED]))
        drawn = [page.milliseconds("#/planet", ".map circle") for _ in range(repeat)]
    return [Row(f"dashboard: open to first picture, {HUNDRED} cities", "ms", drawn, 1000)]


def _idle(directory: Path) -> list[Row]:
    """Measure on an idle server, so that a thousandth of a core is visible."""
    with TarmacProcess(directory / "idle") as server, dashboard_of(server.kubeconfig) as page:
        time.sleep(5)
        without = _core(server)
        with page.opened("#/workloads", "main p.muted") as opened:
            time.sleep(2)
            with_it = _core(server)
            asked: list[str] = []
            hide(opened)
            opened.wait_for_timeout(1000 * _HIDDEN_SECONDS)
            opened.on("request", lambda request: asked.append(request.url))
            opened.on("websocket", lambda socket: asked.append(socket.url))
            opened.wait_for_timeout(1000 * _WATCHED_SECONDS)
    return [
        Row("dashboard: server for an open, idle page", "% of a core", [100 * max(0.0, with_it - without)], 0.1),
        Row(f"dashboard: requests of a hidden page in {_WATCHED_SECONDS:.0f} s", "requests", [len(asked)], 0),
    ]


def _core(server: TarmacProcess) -> float:
    before = cpu_seconds((server.pid,))
    time.sleep(_WATCHED_SECONDS)
    return (cpu_seconds((server.pid,)) - before) / _WATCHED_SECONDS


@contextmanager
def _planet(directory: Path) -> Generator[TarmacProcess]:
    each = (RESTING + ROLLED) // len(CITIES)
    flags = ("--runtime", "sim", "--cities", ",".join(CITIES), "--sim-nodes", str(each // PER_NODE + 4))
    with TarmacProcess(directory / "large", *flags, command="up") as planet:
        for name, count in (("web", RESTING), ("rolled", ROLLED)):
            _apply(planet, _named(workload(count // len(CITIES), CITIES), name))
        for name in ("web", "rolled"):
            _kubectl(planet, "wait", "--for=condition=Ready", f"workload/{name}", "--timeout=600s")
        yield planet


def _large(planet: TarmacProcess, repeat: int, say: Say) -> list[Row]:
    with dashboard_of(planet.kubeconfig) as page:
        say("opening it there")
        usable = [page.milliseconds("#/workloads", "tbody tr") for _ in range(repeat)]
        listed = _listed(page)
        instances, heap, task, cpu, frames = _rollout(planet, page, say)
    size = f"{RESTING + ROLLED:,} instances"
    return [
        Row(f"dashboard: open to Workloads usable, {size}, {len(CITIES)} cities", "ms", usable, 1500),
        Row(f"dashboard: open to the list of {size}", "ms", [instances]),
        *(
            Row(f"dashboard: {size}, {len(CITIES)} cities: {what}", "ms", [spent], 100)
            for what, spent in listed.items()
        ),
        Row(f"dashboard: JavaScript heap, list of {size}", "MB", [heap], 120),
        Row(f"dashboard: rollout of {ROLLED:,} instances watched, longest task", "ms", [task], 50),
        Row("dashboard: the same, CPU time of the longest task", "CPU-ms", [cpu], 50),
        Row("dashboard: the same, scrolling meanwhile", "frames/s", [frames], 55, at_least=True),
    ]


def _listed(page: Dashboard) -> dict[str, float]:
    """Return the milliseconds to come back to the list, to sort it and to filter it."""
    with page.opened("#/instances", "tbody tr") as opened:
        opened.get_by_text(f"{RESTING + ROLLED} of {RESTING + ROLLED}").wait_for()
        opened.evaluate("location.hash = '#/workloads'")
        opened.get_by_role("heading", name="Workloads").wait_for()
        return {
            "come back to the list": milliseconds_of(opened, "#/instances"),
            "sort": milliseconds_of(opened, "sort"),
            "filter": milliseconds_of(opened, "filter"),
        }


def _rollout(planet: TarmacProcess, page: Dashboard, say: Say) -> tuple[float, float, float, float, float]:
    with page.opened("#/instances", "tbody tr") as opened:
        opened.get_by_text(f"{RESTING + ROLLED} of {RESTING + ROLLED}").wait_for()
        opened.wait_for_timeout(3000)
        opening, heap = appeared(opened), heap_mb(opened)
        forget_tasks(opened)
        say("rolling out")
        template: dict[str, Any] = {"metadata": {"annotations": {"rolled": "out"}}}
        # All at once, the highest rate of changes for a page.
        patch = json.dumps(
            {"spec": {"rollout": {"maxUnavailable": "100%", "waves": "AllAtOnce"}, "template": template}}
        )
        with traced_tasks(opened) as spent:
            _kubectl(planet, "patch", "workload", "rolled", "--type=merge", "-p", patch)
            frames = frames_while_scrolling(opened, 10)
            until = time.monotonic() + 600
            while not _is_rolled(planet) and time.monotonic() < until:
                opened.wait_for_timeout(500)
        assert _is_rolled(planet), "the rollout did not end"
        return opening, heap, longest_task(opened), max(spent), frames


def _is_rolled(planet: TarmacProcess) -> bool:
    status = json.loads(_kubectl(planet, "get", "workload", "rolled", "-o", "json"))["status"]
    return status.get("updatedReplicas") == status.get("readyReplicas") == ROLLED


def _question(planet: TarmacProcess, repeat: int) -> list[Row]:
    names = json.loads(_kubectl(planet, "get", "instances", "-o", "json", "--chunk-size=0"))["items"]
    sender, target = (names[at]["metadata"]["name"] for at in (0, -1))
    asked = f"/apis/compute.datumapis.com/v1alpha/namespaces/default/instances/{sender}/why?reach={target}&port=80"
    title, rows = f"`why --reach`, {RESTING + ROLLED:,} pods, {POLICIES:,} policies", list[Row]()
    for what, policy in (("", _policy), (" that mean pods", _policy_of_pods)):
        _apply(planet, *(policy(f"policy-{n}", CITIES[n % len(CITIES)]) for n in range(POLICIES)))
        with _session(planet) as http:
            answers = [_timed(http, planet.url + asked) for _ in range(repeat)]
            with _session(planet) as other, _waiting(other, f"{planet.url}/livez") as waits:
                for _ in range(repeat):
                    _timed(http, planet.url + asked)
        rows += [
            Row(title + what, "ms", [1e3 * each for each in answers], 300),
            Row(f"{title}{what}: longest wait of another request meanwhile", "ms", [1e3 * max(waits)]),
        ]
    command = [sys.executable, "-m", "tarmac.apps.main", "why", f"instance/{sender}", "--reach", f"{target}:80"]
    return [*rows, Row("`tarmac why --reach` there, as a command", "ms", _commands(planet, command, repeat))]


def _commands(planet: TarmacProcess, command: list[str], repeat: int) -> list[float]:
    """Return the milliseconds of each run but the first, which compiles the program."""
    environment, found = compiled(planet.data_dir / "compiled"), list[float]()
    for _ in range(repeat + 1):
        begun = time.perf_counter()
        whole = [*command, "--kubeconfig", str(planet.kubeconfig)]
        done = subprocess.run(whole, env=environment, capture_output=True, check=False)
        found.append(1e3 * (time.perf_counter() - begun))
        assert done.returncode in (0, 3), done.stderr
    return found[1:]


def _logs(planet: TarmacProcess, directory: Path, repeat: int) -> list[Row]:
    _apply(planet, _named(workload(STREAMS, CITIES[:1]), "chatty"))
    _kubectl(planet, "wait", "--for=condition=Ready", "workload/chatty", "--timeout=300s")
    pod = _kubectl(planet, "get", "pods", "-l", "compute.datumapis.com/workload-name=chatty", "-o", "name").split()[0]
    read = read_logs(planet, "chatty", pod.removeprefix("pod/"), directory, repeat)
    ratios = [own / other for own, other in zip(read.tarmac, read.kubectl, strict=True)]
    return [
        Row(f"`tarmac logs` of {STREAMS} streams, {LINES:,} lines", "s", read.tarmac),
        Row("`kubectl logs` of the same bytes, one stream", "s", read.kubectl),
        Row("`tarmac logs` over `kubectl logs`", "ratio", ratios, 2),
    ]


def _timed(http: requests.Session, url: str) -> float:
    begun = time.perf_counter()
    answer = http.get(url)
    seconds = time.perf_counter() - begun
    assert answer.status_code == 200, answer.text
    return seconds


@contextmanager
def _waiting(http: requests.Session, url: str) -> Generator[list[float]]:
    """Yield the times of small requests, one after the other."""
    over, waits = threading.Event(), [0.0]

    def ask() -> None:
        while not over.is_set():
            waits.append(_timed(http, url))

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield waits
    finally:
        over.set()
        thread.join()


@contextmanager
def _session(planet: TarmacProcess) -> Generator[requests.Session]:
    with requests.Session() as made:
        made.trust_env = False  # otherwise certificates of the environment would be used
        made.verify = str(planet.data_dir / "pki" / "ca.crt")
        made.cert = planet.admin_credentials()
        yield made


def _named(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "name": name}}


def _policy(name: str, city: str) -> dict[str, Any]:
    """A policy for every instance in a city: all clients may connect to one port."""
    selector = {"matchLabels": {"compute.datumapis.com/city-code": city}}
    spec = {"selector": selector, "ingress": [{"ports": [{"port": 80}]}]}
    header = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkPolicy"}
    return {**header, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _policy_of_pods(name: str, city: str) -> dict[str, Any]:
    """The same for the instances of the city alone."""
    made = _policy(name, city)
    made["spec"]["ingress"][0]["from"] = [{"podSelector": made["spec"]["selector"]}]
    return made


def _apply(planet: TarmacProcess, *objects: dict[str, Any]) -> None:
    body = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    _kubectl(planet, "apply", "--server-side", "-f", "-", stdin=body)


def _kubectl(planet: TarmacProcess, *words: str, stdin: str = "") -> str:
    command = [kubectl_path(), "--kubeconfig", str(planet.kubeconfig), *words]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout
