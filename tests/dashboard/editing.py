"""The editor of the page, and pasting into it."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

_PASTE = """(content, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  content.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""


def editor(page: Page) -> Locator:
    """The editor's text box; it appears once it was loaded."""
    return page.get_by_role("textbox", name="Objects, as YAML or JSON")


def paste(page: Page, text: str) -> None:
    """Replace everything by `text`; the focus stays as after pasting."""
    expect(editor(page)).to_be_visible()
    editor(page).focus()
    page.keyboard.press("Control+a")
    editor(page).evaluate(_PASTE, text)
