"""Index of Service selectors by one of their labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Labels = Mapping[str, str]


def matches(selector: Labels, labels: Labels) -> bool:
    """Return True if the selector matches the labels."""
    return selector.items() <= labels.items()


class SelectorIndex:
    """The selectors of every Service, each under the first of its labels."""

    def __init__(self) -> None:
        self._by_key: dict[str, Labels] = {}
        self._by_label: dict[tuple[str, str, str], dict[str, Labels]] = {}

    def put(self, namespace: str, key: str, selector: Labels) -> None:
        """Record the selector of a Service; an empty one removes it."""
        before = self._by_key.pop(key, {})
        for label, value in sorted(before.items())[:1]:
            known = self._by_label[namespace, label, value]
            del known[key]
            if not known:
                del self._by_label[namespace, label, value]
        for label, value in sorted(selector.items())[:1]:
            self._by_key[key] = selector
            self._by_label.setdefault((namespace, label, value), {})[key] = selector

    def matching(self, namespace: str, labels: Labels) -> Iterator[str]:
        """Yield the keys of the Services whose selector matches the labels."""
        for label, value in labels.items():
            for key, selector in self._by_label.get((namespace, label, value), {}).items():
                if matches(selector, labels):
                    yield key
