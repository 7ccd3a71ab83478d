// Announcements, also for screen readers: one sentence at a time, in a polite live region.
import { effect, signal } from "@preact/signals";

export const announced = signal("");
/** Takes back what was announced; null where nothing can. */
export const undone = signal<(() => void) | null>(null);

const SHOWN = 8000; // milliseconds
let timer = 0;
effect(() => {
  clearTimeout(timer);
  if (announced.value) timer = window.setTimeout(() => announce(""), SHOWN);
  else undone.value = null;
});

/** Say the result of an action, with a way to take it back. */
export function announce(text: string, undo: (() => void) | null = null): void {
  undone.value = undo;
  announced.value = text;
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announce(`Copied: ${text}`);
  } catch {
    announce("The browser does not let this page copy; mark the text instead.");
  }
}
