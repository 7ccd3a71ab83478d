// A terminal for untrusted output: it only displays. Loaded when one is opened.
import type { Terminal } from "@xterm/xterm";

export interface Made {
  terminal: Terminal;
  /** Gone, with everything that it listens to. */
  end: () => void;
}

const HYPERLINK = 8;
const CLIPBOARD = 52;

/** A terminal in a place. With a size it keeps it; without, it is as large as its place. */
export async function makeTerminal(place: HTMLElement, size?: [number, number]): Promise<Made> {
  const { FitAddon, Terminal } = await import("./xterm.ts");
  const terminal = new Terminal({ allowProposedApi: false, ...(size ? { cols: size[0], rows: size[1], disableStdin: true } : {}) });
  // Untrusted output never becomes a link or reaches the clipboard.
  for (const code of [HYPERLINK, CLIPBOARD]) terminal.parser.registerOscHandler(code, () => true);
  terminal.open(place);
  terminal.attachCustomKeyEventHandler((event) => {
    if (!event.ctrlKey || event.key !== "]") return true;
    giveBack();
    return false;
  });
  const pasted = (event: ClipboardEvent) => {
    if (sure(event.clipboardData?.getData("text") ?? "")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  place.addEventListener("paste", pasted, { capture: true });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  const resized = () => fit.fit();
  if (!size) {
    resized();
    addEventListener("resize", resized);
  }
  return {
    terminal,
    end: () => {
      removeEventListener("resize", resized);
      place.removeEventListener("paste", pasted, { capture: true });
      terminal.dispose();
    },
  };
}

/** Ctrl-] in a terminal or a screen: the keys are the page's again. */
export function giveBack(): void {
  document.getElementById("main")?.focus();
}

/** Several lines are run one by one as they are pasted: that is asked about. */
function sure(text: string): boolean {
  const lines = text.trimEnd().split(/\r\n?|\n/).length;
  return lines < 2 || confirm(`Paste ${lines} lines? Each of them may run at once.`);
}
