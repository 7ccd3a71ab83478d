// Announcements, also for screen readers: one sentence at a time, in a polite live region.
import { effect, signal } from "@preact/signals";

export const announced = signal("");

const SHOWN = 8000; // milliseconds
let timer = 0;
effect(() => {
  clearTimeout(timer);
  if (announced.value) timer = window.setTimeout(() => (announced.value = ""), SHOWN);
});

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announced.value = `Copied: ${text}`;
  } catch {
    announced.value = "The browser does not let this page copy; mark the text instead.";
  }
}
