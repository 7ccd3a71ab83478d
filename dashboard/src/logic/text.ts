// Untrusted text, made safe to show: it never becomes markup, and cannot imitate other text.

const LONGEST_CELL = 1000;

/** Control and bidirectional characters as marks that can be seen; tabs and line breaks stay if wanted. */
export function visible(text: string, lines = false): string {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (each) => {
    if (lines && (each === "\n" || each === "\t")) return each;
    const code = each.codePointAt(0) ?? 0;
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `\u27e8${code.toString(16)}\u27e9`;
  });
}

/** The text of a cell. */
export function cell(value: unknown): string {
  const text = visible(value === null || value === undefined ? "" : String(value));
  return text.length > LONGEST_CELL ? `${text.slice(0, LONGEST_CELL)}…` : text;
}

/** How long ago, as kubectl says it. */
export function age(since: string, now: number): string {
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  return Number.isNaN(seconds) ? "" : lasting(seconds);
}

/** A duration in seconds, in the units that kubectl chooses. */
export function lasting(seconds: number): string {
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 ? `${minutes}m${seconds % 60}s` : `${minutes}m`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 ? `${hours}h${minutes % 60}m` : `${hours}h`;
  if (hours < 48) return `${hours}h`;
  return `${Math.floor(hours / 24)}d`;
}

/** A name as one word of a command line: a link may name anything, and users paste commands into shells. */
export function word(name: string): string {
  return /^[\w./:@%+=,-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`;
}
