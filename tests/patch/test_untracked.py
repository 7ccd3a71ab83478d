"""Objects with untracked fields: made by a request without managers, until the first apply."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.server.patch.apply import server_side_apply
from tarmac.server.patch.managed import for_update
from tests.patch.kinds import POD

NOW = "2026-11-15T12:00:00Z"


def created(**metadata: object) -> JsonObject:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", **metadata},
        "spec": {"hostname": "h"},
    }
    for_update(POD, None, body, "maker", "", NOW)
    return body


def test_a_create_that_says_so_is_not_tracked() -> None:
    assert "managedFields" in created()["metadata"]
    assert "managedFields" not in created(managedFields=[{}])["metadata"]


def test_later_writes_do_not_begin_to() -> None:
    old = created(managedFields=[{}])
    new = {**old, "metadata": dict(old["metadata"]), "spec": {"hostname": "other"}}
    for_update(POD, old, new, "somebody", "", NOW)
    assert "managedFields" not in new["metadata"]


def test_the_first_apply_finds_everything_owned_by_those_before_it() -> None:
    old = created(managedFields=[{}])
    wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}}}
    applied = server_side_apply(POD, old, wanted, "me", force=False, subresource="", now=NOW)
    managers = {entry["manager"] for entry in applied["metadata"]["managedFields"]}
    assert managers == {"before-first-apply", "me"}
    assert applied["spec"] == {"hostname": "h"}
