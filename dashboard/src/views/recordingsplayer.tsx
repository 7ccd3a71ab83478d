// Plays a recording: play, pause, speed, seek. Seeking back replays from the beginning: a terminal cannot go back.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Terminal } from "@xterm/xterm";
import { clock, countAt, sizeOf, type Cast, type Event } from "../logic/cast.ts";
import { cell } from "../logic/text.ts";
import { makeTerminal } from "../parts/terminal.ts";

const SPEEDS = [0.5, 1, 2, 4, 8, 16];
const TICK = 50;

export function Player({ cast }: { cast: Cast }) {
  const place = useRef<HTMLDivElement>(null);
  const tape = useRef<Tape | null>(null);
  const [at, setAt] = useState(0);
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState(1);
  useEffect(() => {
    let gone = false;
    let end = () => {};
    if (place.current) {
      void makeTerminal(place.current, [cast.width, cast.height]).then((made) => {
        if (gone) return made.end();
        end = made.end;
        tape.current = new Tape(cast, made.terminal);
        tape.current.seek(0);
      });
    }
    return () => {
      gone = true;
      tape.current = null;
      end();
    };
  }, [cast]);
  useEffect(() => {
    if (!playing) return;
    let before = performance.now();
    const timer = setInterval(() => {
      const now = performance.now();
      const passed = ((now - before) / 1000) * speed;
      before = now;
      setAt((old) => Math.min(cast.duration, old + passed));
    }, TICK);
    return () => clearInterval(timer);
  }, [playing, speed, cast]);
  useEffect(() => {
    tape.current?.seek(at);
    if (at >= cast.duration) setPlaying(false);
  }, [at]);
  const play = () => {
    if (!playing && at >= cast.duration) setAt(0);
    setPlaying(!playing);
  };
  const marks = cast.events.filter((each) => each.code === "m");
  return (
    <>
      <p class="player">
        <button type="button" onClick={play}>{playing ? "Pause" : "Play"}</button>{" "}
        <label>Moment <input type="range" min={0} max={cast.duration} step={0.01} value={at} aria-valuetext={`${clock(at)} of ${clock(cast.duration)}`}
          onInput={(event) => setAt(Number(event.currentTarget.value))} /></label>{" "}
        <span>{clock(at)} of {clock(cast.duration)}</span>{" "}
        <label>Speed <select value={speed} onChange={(event) => setSpeed(Number(event.currentTarget.value))}>
          {SPEEDS.map((each) => <option key={each} value={each}>{each}×</option>)}
        </select></label>
      </p>
      <div class="replay" ref={place} />
      {marks.length > 0 && <ul class="marks">{marks.map((each, index) => <Mark key={index} mark={each} go={setAt} />)}</ul>}
    </>
  );
}

function Mark({ mark, go }: { mark: Event; go: (at: number) => void }) {
  return <li><button type="button" onClick={() => go(mark.time)}>{clock(mark.time)}</button> {cell(mark.text)}</li>;
}

/** The terminal of a recording, and the number of events it has shown. */
class Tape {
  private shown = 0;

  constructor(private readonly cast: Cast, private readonly terminal: Terminal) {}

  seek(time: number): void {
    const wanted = countAt(this.cast.events, time);
    if (wanted < this.shown) {
      this.terminal.reset();
      this.terminal.resize(this.cast.width, this.cast.height);
      this.shown = 0;
    }
    for (const event of this.cast.events.slice(this.shown, wanted)) this.feed(event);
    this.shown = wanted;
  }

  private feed(event: Event): void {
    if (event.code === "o") this.terminal.write(event.text);
    const size = event.code === "r" ? sizeOf(event.text) : null;
    if (size) this.terminal.resize(...size);
  }
}
