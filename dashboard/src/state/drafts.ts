// What is being written, by what it is about: it stays when the view, or the token, is left. It is in no link.
import { signal } from "@preact/signals";

export const drafts = signal<ReadonlyMap<string, string>>(new Map());

export function keep(about: string, text: string): void {
  drafts.value = new Map(drafts.value).set(about, text);
}
