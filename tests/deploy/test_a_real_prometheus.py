"""A real Prometheus with our configuration finds a real server and its node, and every expression has a result."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tarmac.client.targets.untyped import SECRETS
from tests.server.streams.planet import Planet, planet
from tests.support.ports import free_ports
from tests.support.prometheus import find_prometheus
from tools.cache import ROOT

DEPLOY, RUNBOOKS = ROOT / "deploy", ROOT / "docs" / "runbooks"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
PAGES = [ROOT / "docs" / "reference" / name for name in ("metrics.md", "agent-metrics.md")]
# Expressions without a value on a server with one empty node, although they are right.
NOTHING_YET = ("backup_age", "failed", "[1h]", "code=~", "tarmac_machine", "tarmac_node_resource")


def alerts() -> list[dict[str, Any]]:
    document = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yml").read_text())
    return [rule for group in document["groups"] for rule in group["rules"]]


def panels() -> Iterator[tuple[str, str]]:
    """Title and expression of all panels of the dashboards."""
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{path.stem}: {panel['title']}", target["expr"]


def promtool(*arguments: str, cwd: Path) -> str:
    tool = find_prometheus().with_name("promtool")
    done = subprocess.run([str(tool), *arguments], cwd=cwd, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A copy of /etc/prometheus without the credentials."""
    folder = tmp_path / "prometheus"
    shutil.copytree(DEPLOY / "prometheus", folder)
    (folder / "tarmac").mkdir()
    return folder


def test_alerts_come_when_they_should_and_not_when_all_is_well(beside: Path) -> None:
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), beside)
    assert "11 rules found" in promtool("check", "rules", "alerts.yml", cwd=beside)
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml", cwd=beside)


def test_each_alert_has_its_runbook_and_each_runbook_its_alert() -> None:
    named = {rule["annotations"]["runbook"]: rule["alert"] for rule in alerts()}
    assert sorted(named) == sorted(
        str(page.relative_to(ROOT)) for page in RUNBOOKS.glob("*.md") if page.stem != "README"
    )
    for page, alert in named.items():
        text = (ROOT / page).read_text()
        assert text.startswith(f"# {alert}\n")
        assert "**Do.**" in text
    assert all(rule["labels"]["severity"] in ("critical", "warning", "info") for rule in alerts())


def test_every_figure_that_is_used_is_one_that_there_is() -> None:
    text = "".join(page.read_text() for page in PAGES)
    known = set(re.findall(r"`([a-z_]+)`", text)) | {"up", "workqueue_retries_total"}
    known |= {"process_cpu_seconds_total", "process_resident_memory_bytes"}
    expressions = [rule["expr"] for rule in alerts()] + [expression for _, expression in panels()]
    used = {
        name
        for each in expressions
        for name in re.findall(r"\b(?:tarmac|apiserver|etcd|kubelet|process|workqueue)_\w+", each)
    }
    used = {name.removesuffix("_bucket") for name in used}
    assert len(used) > 20
    assert sorted(used - known) == []


def test_dashboards_are_whole() -> None:
    found = [json.loads(path.read_text()) for path in DASHBOARDS]
    assert len({each["uid"] for each in found}) == len(found) == 2
    for each in found:
        ids = [panel["id"] for panel in each["panels"]]
        assert len(ids) == len(set(ids))
        assert {panel["datasource"]["uid"] for panel in each["panels"]} == {"${datasource}"}


async def test_a_prometheus_finds_everything_and_answers_everything(beside: Path, tmp_path: Path) -> None:
    find_prometheus()  # before a planet is started in vain
    async with planet(tmp_path, controllers="serviceaccount,serviceaccounttoken,namespace") as world:
        agent = (
            "kubelet_running_pods 1",
            "process_resident_memory_bytes 5e7",
            'tarmac_disk_available_bytes{name="a"} 1e9',
        )
        world.figures.exposed = "\n".join(agent) + "\n"
        await _credentials(world, beside)
        config = beside / "prometheus.yml"
        address = world.running.url.removeprefix("https://")
        text = config.read_text().replace("127.0.0.1:6443", address).replace("15s", "300ms")
        config.write_text(text.replace("- url:", "- refresh_interval: 1s\n    url:"))
        await asyncio.to_thread(promtool, "check", "config", "prometheus.yml", cwd=beside)
        (port,) = free_ports(1)
        command = [
            str(find_prometheus()), f"--config.file={config}", f"--storage.tsdb.path={beside / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        with (beside / "log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, cwd=beside)
        try:
            await asyncio.to_thread(_everything_is_scraped_and_answered, f"http://127.0.0.1:{port}", beside / "log")
        finally:
            process.terminate()
            await process.wait()


async def _credentials(world: Planet, beside: Path) -> None:
    """Write the account's token and the authority, as in the how-to."""
    applied = await world.kubectl("apply", "-f", str(DEPLOY / "prometheus" / "access.yaml"))
    assert applied.code == 0, applied.err
    async with asyncio.timeout(20):
        while True:
            secret = await world.client.resource(SECRETS).get("tarmac-prometheus", "kube-system")
            if token := (secret.get("data") or {}).get("token"):
                break
            await asyncio.sleep(0.05)
    (beside / "tarmac" / "token").write_bytes(base64.b64decode(token))
    (beside / "tarmac" / "ca.crt").write_bytes(world.pki.ca_file.read_bytes())


def _everything_is_scraped_and_answered(url: str, log: Path) -> None:
    deadline = time.monotonic() + 30
    while {each["metric"]["job"] for each in _asked(url, "rate(up[3s]) * 0 + up == 1")} != {
        "tarmac-servers",
        "tarmac-nodes",
    }:
        assert time.monotonic() < deadline, log.read_text()[-2000:] + str(_asked(url, "up"))
        time.sleep(0.3)
    for rule in alerts():
        _asked(url, rule["expr"])
    silent = [
        title for title, expression in panels() if not _asked(url, _soon(expression)) and _has_figures(expression)
    ]
    assert silent == []
    firing = [
        each["metric"]["alertname"] for each in _asked(url, 'ALERTS{alertname=~"TarmacServerDown|TarmacNoLeader"}')
    ]
    assert firing == []


def _soon(expression: str) -> str:
    """Shorten ranges: there are only seconds of history here."""
    return expression.replace("[5m]", "[3s]")


def _has_figures(expression: str) -> bool:
    return not any(word in expression for word in NOTHING_YET) and "> 0" not in expression


def _asked(url: str, query: str) -> list[dict[str, Any]]:
    try:
        with urllib.request.urlopen(
            f"{url}/api/v1/query?{urllib.parse.urlencode({'query': query})}", timeout=5
        ) as reply:
            answer = json.load(reply)
    except ConnectionError:
        return []  # it has just started
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from error
    except urllib.error.URLError:
        return []
    assert answer["status"] == "success", answer
    return answer["data"]["result"]
