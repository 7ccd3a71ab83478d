"""The user's own kubeconfig: `tarmac up` adds its context, `tarmac down` removes it.

The file is replaced atomically, under the lock that kubectl takes; a copy of it from before stays beside it. Where it
cannot be changed, the reason is printed and everything else works.

The context has the rights of an administrator, so the file is for its owner alone from then on. `sudo` may keep the
HOME of a user, who may have put a link there: a path that another user can change is left alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.apps.layout import Layout
from tarmac.base.clock import Clock
from tarmac.base.statefiles import read_state
from tarmac.base.stderr import print_warning
from tarmac.client.errors import BadKubeconfig
from tarmac.client.kubeconfigmerge import has_context, merged, without

BACKUP_SUFFIX = ".before-tarmac"
_MAX_BYTES = 16 * 1024 * 1024
_LOCK_TIMEOUT = 2.0
_POLL = 0.05


class NotChanged(Exception):
    """The file stays as it is. The message says why."""


@dataclass(frozen=True, slots=True)
class Merged:
    """The file that has the context now, the context's name, and the copy that was made, if one was."""

    file: Path
    context: str
    backup: Path | None


def home_file(environment: Mapping[str, str]) -> Path:
    """Return the file that kubectl would change: the first of KUBECONFIG, else ~/.kube/config."""
    named = [each for each in environment.get("KUBECONFIG", "").split(os.pathsep) if each]
    return Path(named[0] if named else Path(environment.get("HOME", "/")) / ".kube" / "config").absolute()


async def merge(layout: Layout, file: Path, clock: Clock) -> Merged | None:
    """Add the server's context to a file; None if the file is the server's own, or stays as it is."""
    if _same(file, layout.kubeconfig):
        return None
    try:
        found = await _merge(layout, file, clock)
    except (NotChanged, BadKubeconfig, OSError, UnicodeDecodeError) as error:
        print_warning(f"{file}: not changed: {error}; use: export KUBECONFIG={layout.kubeconfig}")
        return None
    with suppress(OSError):
        layout.merged_kubeconfig.write_text(f"{found.file}\n")
    return found


async def unmerge(layout: Layout, clock: Clock) -> None:
    """Remove the server's context from the file that `merge` changed."""
    try:
        file = Path(layout.merged_kubeconfig.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return
    try:
        _check_owner(file)
        async with _locked(file, clock):
            left = without(_read(file), str(layout.data_dir))
            if left:
                _replace(file, left)
            elif left is not None:
                file.resolve().unlink()  # an empty file would be an error to kubectl; it was made by `merge`
    except FileNotFoundError:
        return
    except (NotChanged, BadKubeconfig, OSError, UnicodeDecodeError) as error:
        print_warning(f"{file}: the context of {layout.data_dir} stays there: {error}")


async def _merge(layout: Layout, file: Path, clock: Clock) -> Merged:
    _check_owner(file)
    own = layout.kubeconfig.read_text()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with _locked(file, clock):
        text = _read(file) if file.exists() else ""
        backup = None
        if text and not has_context(text, str(layout.data_dir)):
            backup = file.with_name(file.name + BACKUP_SUFFIX)
            _create(backup, text)
        changed, name = merged(text, own, str(layout.data_dir))
        if changed != text:
            _replace(file, changed)
    return Merged(file, name, backup)


def _check_owner(file: Path) -> None:
    """Refuse a path of which another user owns a part, or can change one. Raises NotChanged, OSError.

    Both the path as given and the one behind its links: a link of another user could lead to any file of this one.
    """
    try:
        behind = file.resolve()
    except RuntimeError:
        raise NotChanged("it is a link to itself") from None
    for path in (file, behind):
        for place in (*reversed(path.parents), path):
            if not os.path.lexists(place):
                break
            _check_place(place, (os.geteuid(),) if place == path else (0, os.geteuid()))


def _check_place(place: Path, owners: Collection[int]) -> None:
    found = os.lstat(place)
    if found.st_uid not in owners:
        raise NotChanged(f"{place} belongs to another user")
    # Group rights are left alone: many users have a group of their own. Sticky: as /tmp, where users change their own.
    if stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise NotChanged(f"{place}: every user can change it")


def _read(file: Path) -> str:
    """Return the content, without waiting at a pipe in its place. Raises OSError, UnicodeDecodeError."""
    return read_state(file.resolve(), _MAX_BYTES).decode()


def _create(path: Path, text: str) -> None:
    """Create the file anew, mode 0600, never through a link that another process put there. Raises OSError."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)


def _replace(file: Path, text: str) -> None:
    """Replace the content. A link stays a link; the mode of the owner stays, and no other user has any."""
    target = file.resolve()
    draft = target.with_name(f".{target.name}.{os.getpid()}")
    _create(draft, text)
    try:
        if target.exists():
            draft.chmod(stat.S_IMODE(target.stat().st_mode) & 0o700)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


@asynccontextmanager
async def _locked(file: Path, clock: Clock) -> AsyncGenerator[None]:
    """Hold the lock file of kubectl. Raises NotChanged if it is held for too long."""
    lock = file.with_name(f"{file.name}.lock")
    deadline = clock.monotonic() + _LOCK_TIMEOUT
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            break
        except FileExistsError:
            if clock.monotonic() > deadline:
                raise NotChanged(f"{lock} is held by another program; remove it if none is running") from None
            await clock.sleep(_POLL)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return one == other
