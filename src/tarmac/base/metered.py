"""Measures the time that an awaitable takes of the event loop: its steps, without the waits between them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """An awaitable that reports the seconds of each step to `spend`, also of a step that fails."""

    __slots__ = ("_awaitable", "_now", "_spend")

    def __init__(self, awaitable: Awaitable[T], now: Callable[[], float], spend: Callable[[float], None]) -> None:
        self._awaitable = awaitable
        self._now = now
        self._spend = spend

    def __await__(self) -> Generator[Any, Any, T]:
        steps: Any = self._awaitable.__await__()
        step, argument = steps.send, None
        while True:
            began = self._now()
            try:
                waited_for = step(argument)
            except StopIteration as end:
                return end.value
            finally:
                self._spend(self._now() - began)
            try:
                argument = yield waited_for
                step = steps.send
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # a cancellation belongs to the awaitable
                step, argument = steps.throw, error
