"""Every write gets the next revision, is checked against the version it replaces, and is visible once acknowledged."""

from __future__ import annotations

import pytest

from tarmac.store.interface import Entry, Exists, Missing, RevisionConflict, Store, splice, unsplice
from tests.store.objects import PODS, SECRETS, decoded, text, value


def test_the_resource_version_is_spliced_in_and_can_be_taken_out_again() -> None:
    """Values and complete objects convert both ways."""
    raw = splice(value("a"), 1234)
    assert raw.startswith(b'{"metadata":{"resourceVersion":"1234","name":"a"}')
    assert unsplice(Entry("a", 1234, 1234, raw)) == value("a")


async def test_an_empty_store_has_a_revision_above_zero(store: Store) -> None:
    """0 means "any" to clients, so no list may ever answer it."""
    assert store.revision >= 1
    assert store.list(PODS).revision == store.revision
    assert store.get(PODS, "ns/a") is None
    assert store.count(PODS) == 0
    assert list(store.buckets()) == []


async def test_create_read_update_delete(store: Store) -> None:
    """The life of an object."""
    before = store.revision
    created = await store.create(PODS, "ns/a", value("one"))
    assert created.revision > before
    assert created.created == created.revision
    assert decoded(created)["metadata"] == {"resourceVersion": str(created.revision), "name": "one"}
    found = store.get(PODS, "ns/a")
    assert found is not None
    assert found.raw == created.raw

    updated = await store.update(PODS, "ns/a", value("two"), created.revision)
    assert updated.revision > created.revision
    assert updated.created == created.revision
    assert store.revision >= updated.revision
    assert store.count(PODS) == 1
    assert list(store.buckets()) == [PODS]

    deleted = await store.delete(PODS, "ns/a", updated.revision)
    assert deleted.revision > updated.revision
    assert (text(deleted), deleted.created) == ("two", created.revision)
    assert decoded(deleted)["metadata"]["resourceVersion"] == str(deleted.revision)
    assert store.get(PODS, "ns/a") is None
    assert list(store.buckets()) == []


async def test_revisions_count_over_all_buckets(store: Store) -> None:
    """Any two writes can be ordered."""
    seen = [
        (await store.create(bucket, f"ns/{number}", value())).revision
        for number in range(3)
        for bucket in (PODS, SECRETS)
    ]
    assert seen == sorted(set(seen))


async def test_create_of_what_is_there_is_refused(store: Store) -> None:
    """Such a write changes nothing."""
    await store.create(PODS, "ns/a", value("one"))
    with pytest.raises(Exists):
        await store.create(PODS, "ns/a", value("two"))
    found = store.get(PODS, "ns/a")
    assert found is not None
    assert text(found) == "one"


async def test_a_write_must_name_the_current_version(store: Store) -> None:
    """A conflict names the current version, which readers already see."""
    first = await store.create(PODS, "ns/a", value("one"))
    second = await store.update(PODS, "ns/a", value("two"), first.revision)
    for write in (
        lambda: store.update(PODS, "ns/a", value("three"), first.revision),
        lambda: store.delete(PODS, "ns/a", first.revision),
    ):
        with pytest.raises(RevisionConflict) as refused:
            await write()
        assert refused.value.current == second.revision
    found = store.get(PODS, "ns/a")
    assert found is not None
    assert text(found) == "two"


async def test_a_write_to_what_is_not_there_is_refused(store: Store) -> None:
    """The object never existed, or was deleted."""
    with pytest.raises(Missing):
        await store.update(PODS, "ns/a", value(), 1)
    entry = await store.create(PODS, "ns/a", value())
    await store.delete(PODS, "ns/a", entry.revision)
    with pytest.raises(Missing):
        await store.update(PODS, "ns/a", value(), entry.revision)
    with pytest.raises(Missing):
        await store.delete(PODS, "ns/a", entry.revision)


async def test_recreated_objects_are_new(store: Store) -> None:
    """`created` is the revision of the last create."""
    first = await store.create(PODS, "ns/a", value("one"))
    await store.delete(PODS, "ns/a", first.revision)
    second = await store.create(PODS, "ns/a", value("two"))
    assert second.created == second.revision > first.revision


async def test_head_is_at_least_as_new_as_what_is_visible(store: Store) -> None:
    """A read-modify-write from head succeeds without a concurrent write."""
    entry = await store.create(PODS, "ns/a", value("one"))
    head = store.head(PODS, "ns/a")
    assert head is not None
    assert head.revision == entry.revision
    await store.update(PODS, "ns/a", value("two"), head.revision)
    assert store.head(PODS, "ns/b") is None
