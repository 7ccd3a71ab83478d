"""Each ending of an Instance's Pod for one cause doubles the wait for the next."""

from __future__ import annotations

from tarmac.base.clock import ManualClock
from tarmac.controllers.instance.endings import FORGOTTEN_SECONDS, MAX_BACKOFF_SECONDS, PodEndings

KEY, UID = "default/web-0", "u"


def waits(times: int, cause: str = "OutOfcpu") -> float:
    clock = ManualClock()
    endings = PodEndings(clock)
    for _ in range(times):
        endings.note(KEY, UID, "dfw-0", cause, "no room")
    return endings.left(KEY, UID)


def test_the_wait_doubles_up_to_five_minutes() -> None:
    assert [waits(times) for times in (1, 2, 3, 4)] == [1, 2, 4, 8]
    assert waits(100) == MAX_BACKOFF_SECONDS


def test_another_cause_begins_anew_and_so_does_another_instance_of_the_name() -> None:
    endings = PodEndings(ManualClock())
    for cause in ("OutOfcpu", "OutOfcpu", "Evicted"):
        endings.note(KEY, UID, "dfw-0", cause, "no room")
    assert endings.left(KEY, UID) == 1
    assert endings.left(KEY, "another") == 0
    assert endings.avoided(KEY, "another") == ""


def test_a_pod_ending_is_forgotten_after_ten_minutes() -> None:
    clock = ManualClock()
    endings = PodEndings(clock)
    for _ in range(5):
        endings.note(KEY, UID, "dfw-0", "OutOfcpu", "no room")
    clock.advance(FORGOTTEN_SECONDS + 1)
    assert endings.avoided(KEY, UID) == ""
    endings.note(KEY, UID, "dfw-1", "OutOfcpu", "no room")
    assert (endings.left(KEY, UID), endings.avoided(KEY, UID)) == (1, "dfw-1")


def test_the_refusal_names_node_cause_and_time_and_ends_with_the_wait() -> None:
    clock = ManualClock()
    endings = PodEndings(clock)
    endings.note(KEY, UID, "dfw-0", "OutOfcpu", "not enough cpu")
    refusal = endings.refusal(KEY, UID)
    assert refusal is not None
    assert refusal.reason == "RefusedByNode"
    assert refusal.message.startswith("dfw-0 has ended its pod once: not enough cpu; the next one is made at ")
    clock.advance(1.0)
    assert endings.refusal(KEY, UID) is None
