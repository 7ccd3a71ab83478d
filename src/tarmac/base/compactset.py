"""Compact sets of strings, for sets that mostly have one member.

Indexes hold tens of thousands of such sets, and a set object takes more memory than its one member. A single member is
therefore stored as itself, an empty set is None, and a real set is made only for two and more. Sets are values: use the
return values of `added` and `removed`.
"""

from __future__ import annotations

CompactSet = str | set[str] | None


def added(few: CompactSet, member: str) -> str | set[str]:
    """Return the set with one more member."""
    if few is None or few == member:
        return member
    if isinstance(few, str):
        return {few, member}
    few.add(member)
    return few


def removed(few: CompactSet, member: str) -> CompactSet:
    """Return the set without a member, which it need not have."""
    if isinstance(few, set):
        few.discard(member)
        return few or None
    return None if few == member else few


def members(few: CompactSet) -> list[str]:
    """Return the members in order."""
    if few is None:
        return []
    return [few] if isinstance(few, str) else sorted(few)
