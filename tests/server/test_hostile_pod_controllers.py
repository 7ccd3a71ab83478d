"""Values of Deployments, Jobs and similar kinds that break parsers: a status below 500, and soon."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from tests.cost.measuring import ADMIN, Server, serving
from tests.fuzz.extremes import BASES

HERE = "/namespaces/default"
CRON_JOBS = f"/apis/batch/v1{HERE}/cronjobs"
CONTROLLERS = f"/api/v1{HERE}/replicationcontrollers"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    async with serving(tmp_path) as running:
        yield running


def cron_job(**fields: str) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": BASES["cronjobs"]["spec"] | fields}


ZONES = (
    "a/" * 1000 + "b",
    "a" * 2_000_000,
    "../../etc/passwd",
    "/etc/passwd",
    "tzdata.zi",
    "a.b.c/d",
    "Europe",
    "Europe/",
    "Europe//Berlin",
    "x\0y",
    "\u202e",
    "-",
    "..",
    "é/²",
)


@pytest.mark.parametrize("zone", ZONES, ids=lambda zone: ascii(zone[:10]))
async def test_a_hostile_time_zone_is_rejected(server: Server, zone: str) -> None:
    """Without the database a time zone is the path of a module, which Python imports part by part."""
    reply = await server.send("POST", CRON_JOBS, cron_job(timeZone=zone))
    assert reply.status == 422, reply.body[:300]
    assert b"unknown time zone" in reply.body


@pytest.mark.parametrize("zone", ["UTC", "Etc/GMT+5", "Europe/Berlin", "America/Argentina/Buenos_Aires"])
async def test_a_time_zone_of_the_database_is_accepted(server: Server, zone: str) -> None:
    assert (await server.send("POST", CRON_JOBS, cron_job(timeZone=zone))).status == 201


SCHEDULES = (
    "* * * * *," * 200,
    "0-59/" + "9" * 900 + " * * * *",
    "² * * * *",
    "1-2-3 * * * *",
    "1/2/3 * * * *",
    "60 * * * *",
    "*/0 * * * *",
    "@every 9999999999h",
    "@every " + "1h" * 400,
    "@reboot",
    "TZ=UTC * * * * *",
    "\0 * * * *",
)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda text: ascii(text[:12]))
async def test_a_hostile_schedule_is_rejected(server: Server, schedule: str) -> None:
    reply = await server.send("POST", CRON_JOBS, cron_job(schedule=schedule))
    assert reply.status == 422, reply.body[:300]
    assert b'"field":"spec.schedule"' in reply.body


@pytest.mark.parametrize("label", ["matchLabels", "matchExpressions", "app"])
async def test_the_scale_of_a_replication_controller_shows_any_label(server: Server, label: str) -> None:
    """The selector of a ReplicationController is a plain map, and its keys are the tenant's."""
    template = BASES["replicationcontrollers"]["spec"]["template"] | {"metadata": {"labels": {label: "x"}}}
    made = {"metadata": {"name": "x"}, "spec": {"selector": {label: "x"}, "template": template}}
    assert (await server.send("POST", CONTROLLERS, made, user=ADMIN)).status == 201
    scale = await server.send("GET", f"{CONTROLLERS}/x/scale")
    assert (scale.status, json.loads(scale.body)["status"]["selector"]) == (200, f"{label}=x")
