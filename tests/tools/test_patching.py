"""The patches that gVisor needs go in where they fit, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.gvisor import PATCHES, apply_patch

_PATCH = """Why it is needed.

--- a/pkg/one.go
+++ b/pkg/one.go
@@ -1,3 +1,3 @@
 before
-old
+new
 after
"""


def _tree(folder: Path, text: str) -> Path:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "one.go").write_text(text)
    return folder


def test_a_patch_changes_what_it_names(tmp_path: Path) -> None:
    apply_patch(_PATCH, _tree(tmp_path, "first\nbefore\nold\nafter\nlast\n"))
    assert (tmp_path / "pkg" / "one.go").read_text() == "first\nbefore\nnew\nafter\nlast\n"


@pytest.mark.parametrize("text", ["before\nolder\nafter\n", "before\nold\nafter\n" * 2])
def test_a_patch_that_does_not_fit_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RuntimeError, match="does not fit"):
        apply_patch(_PATCH, _tree(tmp_path, text))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_the_real_patches_are_one_small_hunk_that_says_why(patch: Path) -> None:
    why, *lines = patch.read_text().splitlines()
    assert why.endswith(".")
    assert sum(line.startswith("@@") for line in lines) == 1
    assert sum(line.startswith("+") and not line.startswith("+++") for line in lines) <= 3
