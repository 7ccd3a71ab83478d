// The state of a serial console: its offset and the holder of its keyboard, from the node's notices.

export interface Notice {
  session?: string;
  attempt?: number | null;
  offset?: number;
  recorded?: boolean;
  keyboard?: boolean;
  writer?: { user: string; since: string } | null;
  gap?: number;
  joined?: string;
  left?: string;
  watchers?: number;
}

export interface Progress {
  attempt: number | null;
  offset: number;
  recorded: boolean | null;
  keyboard: boolean;
  writer: string;
  /** The last event as a sentence; empty if it is of no interest. */
  said: string;
}

export const BEGINNING: Progress = { attempt: null, offset: 0, recorded: null, keyboard: false, writer: "", said: "" };

/** So many bytes of output later. */
export function afterOutput(progress: Progress, bytes: number): Progress {
  return { ...progress, offset: progress.offset + bytes };
}

/** After the node said something. */
export function afterNotice(progress: Progress, notice: Notice): Progress {
  return {
    attempt: typeof notice.attempt === "number" ? notice.attempt : progress.attempt,
    offset: notice.offset ?? progress.offset,
    recorded: notice.recorded ?? progress.recorded,
    keyboard: notice.keyboard ?? progress.keyboard,
    writer: notice.keyboard === undefined ? progress.writer : (notice.writer?.user ?? ""),
    said: sentence(notice),
  };
}

/** The position to resume at: `since` of the console; empty for the beginning. */
export function since(progress: Progress): string {
  return progress.attempt === null ? "" : `${progress.attempt}:${progress.offset}`;
}

/** The holder of the keyboard. */
export function whose(progress: Progress): string {
  if (progress.keyboard) return "You have the keyboard.";
  return progress.writer ? `${progress.writer} has the keyboard; you watch.` : "The keyboard is free; you watch.";
}

function sentence(notice: Notice): string {
  if (notice.gap) return `${notice.gap} bytes are left out.`;
  if (typeof notice.attempt === "number" && !notice.session) return "The machine has been restarted.";
  if (notice.joined) return `${notice.joined} has come.`;
  return notice.left ? `${notice.left} has left.` : "";
}
