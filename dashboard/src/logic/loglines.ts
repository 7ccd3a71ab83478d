// A log as lines. Each line arrives with its time, shown or not: a broken stream resumes at the time of the last line, and
// repeated lines are dropped.
import { visible } from "./text.ts";

const MOST = 500_000; // characters: the newest are kept
const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d) ?/;

interface Line {
  time: string;
  text: string;
}

export class LogLines {
  private lines: Line[] = [];
  private size = 0;
  private rest = "";
  /** The newest time, and how many lines there were of it: several may be of the same moment. */
  private last = { time: "", key: "", count: 0 };
  private told = { key: "", count: 0 };

  get empty(): boolean {
    return this.lines.length === 0 && this.rest === "";
  }

  /** The time at which a new stream resumes; empty if no line was read. */
  get since(): string {
    return this.last.time;
  }

  take(chunk: string): void {
    const lines = (this.rest + chunk).split("\n");
    this.rest = lines.pop() ?? "";
    for (const each of lines) this.add(each);
    if (this.rest.length > MOST) {
      this.add(this.rest);
      this.rest = "";
    }
    this.forget();
  }

  /** A new stream begins, from `since`: half a line comes again as a whole one, and lines that were told are left out. */
  again(): void {
    this.rest = "";
    this.told = { key: this.last.key, count: this.last.count };
  }

  /** The visible lines: those that contain `find` in any case, and their number of the total. */
  shown(times: boolean, find: string): { text: string; found: number; all: number } {
    const [time, text] = parted(this.rest);
    const all = this.rest && !this.isTold(keyOf(time)) ? [...this.lines, { time, text: visible(text, true) }] : this.lines;
    const wanted = find.toLowerCase();
    const kept = wanted ? all.filter((each) => each.text.toLowerCase().includes(wanted)) : all;
    return { text: kept.map((each) => (times && each.time ? `${each.time} ${each.text}` : each.text)).join("\n"), found: kept.length, all: all.length };
  }

  private add(line: string): void {
    const [time, text] = parted(line);
    const key = keyOf(time);
    if (key && key === this.told.key && this.told.count > 0) {
      this.told.count -= 1;
      return;
    }
    if (this.isTold(key)) return;
    if (key > this.last.key) this.last = { time, key, count: 1 };
    else if (key && key === this.last.key) this.last.count += 1;
    this.lines.push({ time, text: visible(text, true) });
    this.size += line.length + 1;
  }

  private isTold(key: string): boolean {
    return key !== "" && (key < this.told.key || (key === this.told.key && this.told.count > 0));
  }

  private forget(): void {
    let gone = 0;
    for (; this.size > MOST && gone < this.lines.length - 1; gone += 1) {
      const { time, text } = this.lines[gone] as Line;
      this.size -= time.length + text.length + 2;
    }
    if (gone) this.lines = this.lines.slice(gone);
  }
}

function parted(line: string): [time: string, text: string] {
  const found = STAMP.exec(line);
  return found ? [found[0].trimEnd(), line.slice(found[0].length)] : ["", line];
}

/** A time as text that sorts as times do: some writers drop trailing zeros of a fraction. */
function keyOf(time: string): string {
  const found = STAMP.exec(time);
  if (!found) return "";
  const seconds = Date.parse(`${found[1]}${found[3]}`) / 1000;
  return `${String(seconds).padStart(12, "0")}.${(found[2] ?? "").padEnd(9, "0")}`;
}
