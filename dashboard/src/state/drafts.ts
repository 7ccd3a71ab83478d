// Drafts of manifests by their object, kept when the user leaves the view or the session. They are in no link.
import { signal } from "@preact/signals";

export const drafts = signal<ReadonlyMap<string, string>>(new Map());

export function keep(about: string, text: string): void {
  drafts.value = new Map(drafts.value).set(about, text);
}
