"""The audit log has one line per request, in a standard format, without secrets, also while the disk fails."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Answer, Request, Response, StreamResponse
from tarmac.server.requestinfo import request_info
from tarmac.server.security.audit.auditlog import AuditLog
from tarmac.server.security.users import User
from tests.security.conftest import user

PATH = "/api/v1/namespaces/team/secrets/password"


def log(path: Path, **options: Any) -> AuditLog:
    return AuditLog(path, ManualClock(1_800_000_000.25), Randomness(1), **options)


def record(audit: AuditLog, answer: Answer, path: str = PATH, **options: Any) -> Request:
    headers = {"user-agent": 'kubectl "v1"', "authorization": "Bearer hunter2"}
    asker: User | None = options.pop("user", user("jane", "developers"))
    request = Request(options.pop("method", "GET"), path, headers=headers, peer_address="10.0.0.1", **options)
    request.user = asker
    request.info = request_info(request)
    audit.record(request, answer)
    return request


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_line_says_who_did_what_and_how_it_ended(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    request = record(audit, Response(200, b'{"data":{"password":"aHVudGVyMg=="}}'))
    audit.close()
    [line] = lines(tmp_path / "audit.log")
    assert line == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": request.audit_id,
        "stage": "ResponseComplete",
        "requestURI": PATH,
        "verb": "get",
        "user": {"username": "jane", "groups": ["developers", "system:authenticated"]},
        "sourceIPs": ["10.0.0.1"],
        "userAgent": 'kubectl "v1"',
        "objectRef": {"resource": "secrets", "namespace": "team", "name": "password", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2027-01-15T08:00:00.250000Z",
        "stageTimestamp": "2027-01-15T08:00:00.250000Z",
    }


async def test_nothing_secret_is_written(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    record(audit, Response(201, b'{"data":"aHVudGVyMg=="}'), method="POST", body=b'{"data":"aHVudGVyMg=="}')
    quoting = b'{"reason":"Invalid","message":"Invalid value: \\"hunter2\\"","code":422}'
    record(audit, Response(422, quoting))
    audit.close()
    text = (tmp_path / "audit.log").read_text()
    assert "hunter2" not in text
    assert "aHVudGVyMg" not in text
    assert lines(tmp_path / "audit.log")[1]["responseStatus"] == {
        "metadata": {},
        "status": "Failure",
        "reason": "Invalid",
        "code": 422,
    }


async def test_ids_are_uuids_of_their_own(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    ids = {record(audit, Response(200)).audit_id for _ in range(100)}
    audit.close()
    assert len(ids) == 100
    assert {tuple(map(len, each.split("-"))) for each in ids} == {(8, 4, 4, 4, 12)}


async def test_watches_impersonation_queries_and_strangers(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    record(audit, StreamResponse(lambda stream: lambda: None), "/api/v1/pods", query='watch=1&x="')
    request = Request("GET", "/version")
    request.user, request.impersonator = user("jane"), user("root")
    request.info = request_info(request)
    audit.record(request, Response(200))
    record(audit, Response(401, b"no json"), user=None)
    audit.close()
    watch, acting, stranger = lines(tmp_path / "audit.log")
    assert (watch["stage"], watch["verb"]) == ("ResponseStarted", "watch")
    assert watch["requestURI"] == '/api/v1/pods?watch=1&x="'
    assert (acting["user"]["username"], acting["impersonatedUser"]["username"]) == ("root", "jane")
    assert "objectRef" not in acting
    assert (stranger["user"], stranger["responseStatus"]["code"]) == ({}, 401)


async def test_lines_reach_the_disk_without_being_asked(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    record(audit, Response(200))
    async with asyncio.timeout(5):
        while not (tmp_path / "audit.log").read_bytes():
            await asyncio.sleep(0.02)
    audit.close()


async def test_the_file_is_private_and_rotated(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    audit = log(path, largest=2_000)
    for _ in range(40):
        record(audit, Response(200))
        audit._flush()
    audit.close()
    assert path.stat().st_mode & 0o777 == 0o600
    files = sorted(each.name for each in path.parent.iterdir())
    assert files == ["audit.log", *[f"audit.log.{number}" for number in range(1, 6)]]
    assert all(each.stat().st_size <= 2_000 for each in path.parent.iterdir())
    assert all(lines(each) for each in path.parent.iterdir())


async def test_a_full_disk_drops_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.log"
    audit = log(path)
    write = os.write
    full = True

    def limited(descriptor: int, data: memoryview) -> int:
        if not full:
            return write(descriptor, data)
        if len(data) > 10:
            return write(descriptor, data[:10])  # a part of it still fits
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tarmac.server.security.audit.auditfile.os.write", limited)
    record(audit, Response(200))
    audit._flush()
    async with asyncio.timeout(5):
        while audit._file.busy:
            await asyncio.sleep(0.005)
    assert audit.dropped == 1
    full = False
    record(audit, Response(404, b'{"reason":"NotFound"}'))
    audit.close()
    assert [line["responseStatus"]["code"] for line in lines(path)] == [404]


async def test_a_disk_that_hangs_costs_a_bounded_backlog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = log(tmp_path / "audit.log")
    released = threading.Event()
    write = os.write

    def stuck(descriptor: int, data: memoryview) -> int:
        assert released.wait(10)
        return write(descriptor, data)

    monkeypatch.setattr("tarmac.server.security.audit.auditfile.os.write", stuck)
    for _ in range(70_000):
        record(audit, Response(200))
    assert audit.dropped > 0
    assert len(audit._notes) <= 8 * 4096
    released.set()
    audit.close()
    assert len(lines(tmp_path / "audit.log")) + audit.dropped == 70_000


async def test_long_texts_of_clients_are_cut_in_the_audit_log(tmp_path: Path) -> None:
    """Such texts are not cached either: a few thousand anonymous requests would fill the memory."""
    audit = log(tmp_path / "audit.log")
    for number in range(20):
        path = f"/api/v1/namespaces/team/secrets/{number}{'n' * 60_000}"
        request = Request("GET", path, "q" * 60_000, {"user-agent": f"{number}{'a' * 60_000}"})
        request.user, request.info = user("jane"), request_info(request)
        audit.record(request, Response(200))
        request.query = ""
        audit.record(request, Response(200))
    remembered = sum(len(str(key)) + len(text) for key, text in audit._texts.items())  # pyright: ignore[reportPrivateUsage]
    audit.close()
    written = lines(tmp_path / "audit.log")
    assert remembered < 100_000
    assert max(len(line["requestURI"]) for line in written) == 8192 + len("...TRUNCATED")
    assert written[0]["userAgent"] == "0" + "a" * 1023 + "...TRUNCATED"
    assert len(written[0]["objectRef"]["name"]) == 512 + len("...TRUNCATED")
    assert (tmp_path / "audit.log").stat().st_size < 20 * 2 * 11_000


async def test_no_request_begins_a_line_of_its_own(tmp_path: Path) -> None:
    audit = log(tmp_path / "audit.log")
    forged = 'x"}\n{"kind":"Event","user":{"username":"somebody-else"}}'
    request = Request("GET", f"/api/v1/namespaces/{forged}", f"q={forged}", {"user-agent": forged})
    request.user, request.info = user(forged), request_info(request)
    audit.record(request, Response(404, b'{"reason":"Not\\nFound"}'))
    audit.close()
    [line] = lines(tmp_path / "audit.log")
    assert line["user"]["username"] == forged
