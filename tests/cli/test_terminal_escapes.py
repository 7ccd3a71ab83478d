"""No text of a node or a tenant in a status moves the cursor of the reader."""

from __future__ import annotations

from tarmac.cli.rendering.text import paragraph, table

EVIL = "it\x1b[2J failed\x07 at\nonce"


def test_tables_and_paragraphs_hold_printable_letters_only() -> None:
    for text in (table(("NODE", "MESSAGE"), [(EVIL, EVIL)]), paragraph(EVIL)):
        assert text.replace("\n", "").isprintable()


def test_a_message_of_several_lines_stays_readable() -> None:
    assert paragraph("exit code 1\nno such file") == "exit code 1 no such file"
