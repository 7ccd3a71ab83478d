// Announcements, also for screen readers: one sentence at a time, in a polite live region.
import { signal } from "@preact/signals";

export const announced = signal("");

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    announced.value = `Copied: ${text}`;
  } catch {
    announced.value = "The browser does not let this page copy; mark the text instead.";
  }
}
