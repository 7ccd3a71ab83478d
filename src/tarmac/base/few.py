"""Sets of texts of which most have one member, at the price of that member.

Indexes hold tens of thousands of such sets, and a set object takes more memory than what it is about. A lone member is
therefore kept as it is, an empty set is None, and a real set is made only for two and more. Sets are values: take what
`added` and `removed` return.
"""

from __future__ import annotations

Few = str | set[str] | None


def added(few: Few, member: str) -> str | set[str]:
    """The set with one more member."""
    if few is None or few == member:
        return member
    if isinstance(few, str):
        return {few, member}
    few.add(member)
    return few


def removed(few: Few, member: str) -> Few:
    """The set without a member, which it need not have."""
    if isinstance(few, set):
        few.discard(member)
        return few or None
    return None if few == member else few


def members(few: Few) -> list[str]:
    """The members in order."""
    if few is None:
        return []
    return [few] if isinstance(few, str) else sorted(few)
