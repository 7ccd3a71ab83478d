// A container's log: which container, since when, the one before a crash, followed or not. All of it is in the link.
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { LogStream, type LogState } from "../api/logstream.ts";
import { asked, commandOf, containersOf, linked, optionsOf, TAIL, type LogOptions, type PodContainers } from "../logic/logoptions.ts";
import { link } from "../logic/routes.ts";
import { visible, word } from "../logic/text.ts";
import { Command, Unavailable } from "../parts/states.tsx";
import { useLoaded } from "../state/loaded.ts";
import { replace } from "../state/navigation.ts";

const SINCE: [value: string, label: string][] = [["", `newest ${TAIL} lines`], ["1m", "1 minute"], ["5m", "5 minutes"], ["1h", "1 hour"], ["24h", "1 day"]];
const NEAR = 32; // pixels from the end: a reader there wants to follow

export function Logs({ pod, namespace, name, query }: { pod: string; namespace: string; name: string; query: URLSearchParams }) {
  const { value, failure } = useLoaded<PodContainers>(pod);
  const containers = containersOf(value);
  const options = optionsOf(query, containers);
  // The default container is unknown until the Pod is loaded. A user without access to the Pod may still read its log.
  const log = useLog(value || failure || options.container ? `${pod}/log` : "", options);
  const failed = log.failed && log.stream?.lines.empty !== false;
  const choose = (chosen: Partial<LogOptions>) => replace(link("instances", [namespace, name, "logs"], linked({ ...options, ...chosen })));
  return (
    <>
      <Choices options={options} containers={containers} choose={choose} />
      {failed && <Unavailable title="The log could not be read." reason={log.said} again={log.again} name="Read again" instead={{ href: link("instances", [namespace, name, "events"]), name: "See its events" }} />}
      {!failed && (log.said || log.over) && <p class="muted" role="status">{visible(log.said)}{log.over && <> <button type="button" onClick={log.again}>Read again</button></>}</p>}
      {!failed && <Text log={log} options={options} choose={choose} />}
      <Command text={commandOf(options, `${word(name)} -n ${word(namespace)}`)} />
    </>
  );
}

function Choices({ options, containers, choose }: { options: LogOptions; containers: string[]; choose: (chosen: Partial<LogOptions>) => void }) {
  const names = options.container && !containers.includes(options.container) ? [options.container, ...containers] : containers;
  const times = SINCE.some(([value]) => value === options.since) ? SINCE : [...SINCE, [options.since, options.since] as [string, string]];
  const check = (label: string, checked: boolean, chosen: (on: boolean) => Partial<LogOptions>, disabled = false) => (
    <label><input type="checkbox" checked={checked} disabled={disabled} onChange={(event) => choose(chosen(event.currentTarget.checked))} /> {label}</label>
  );
  return (
    <div class="filter options" role="group" aria-label="What is read">
      {names.length > 1 && <label>Container <select value={options.container} onChange={(event) => choose({ container: event.currentTarget.value })}>{names.map((each) => <option key={each} value={each}>{visible(each)}</option>)}</select></label>}
      <label>Since <select value={options.since} onChange={(event) => choose({ since: event.currentTarget.value })}>{times.map(([value, label]) => <option key={value} value={value}>{label}</option>)}</select></label>
      {check(options.previous ? "Follow (ended containers write no more)" : "Follow", options.follow, (follow) => ({ follow }), options.previous)}
      {check("Before its last restart", options.previous, (previous) => ({ previous, follow: !previous }))}
      {check("Times", options.times, (times) => ({ times }))}
      {check("Wrap", options.wrap, (wrap) => ({ wrap }))}
    </div>
  );
}

function Text({ log, options, choose }: { log: Log; options: LogOptions; choose: (chosen: Partial<LogOptions>) => void }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const { text, found, all } = useMemo(() => log.stream?.lines.shown(options.times, options.find) ?? { text: "", found: 0, all: 0 }, [log.stream, log.seen, options.times, options.find]);
  useLayoutEffect(() => {
    if (box.current && atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [text, options.wrap]);
  const scrolled = ({ currentTarget: at }: { currentTarget: HTMLElement }) => (atEnd.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR);
  return (
    <>
      <p class="filter">
        <label>Find <input type="search" data-filter value={options.find} onInput={(event) => choose({ find: event.currentTarget.value })} /></label>{" "}
        <span class="muted">{options.find ? `${found} of ${all} lines` : `${all} lines`}</span>
      </p>
      {all === 0 && log.over && !log.said && <p class="muted">Nothing was written{options.since && ` in the last ${visible(options.since)}`}.</p>}
      <pre class={options.wrap ? "text log" : "text log unwrapped"} ref={box} tabIndex={0} role="log" aria-live="off" aria-label="Log" onScroll={scrolled}>{text}</pre>
    </>
  );
}

interface Log extends LogState {
  stream: LogStream | null;
  /** Changes when lines have come. */
  seen: number;
  again: () => void;
}

/** A log while it is shown; display options do not reload it. */
function useLog(path: string, options: LogOptions): Log {
  const [stream, setStream] = useState<LogStream | null>(null);
  const [state, setState] = useState<LogState>({ said: "", over: false, failed: false });
  const [seen, look] = useReducer<number, void>((count) => count + 1, 0);
  const [tries, again] = useReducer<number, void>((count) => count + 1, 0);
  const query = JSON.stringify(asked(options));
  useEffect(() => {
    setState({ said: "Connecting…", over: false, failed: false });
    if (!path) return;
    const made = new LogStream(path, JSON.parse(query) as Record<string, string>, options.follow, (told) => {
      if (told) setState(told);
      look();
    });
    setStream(made);
    return () => made.leave();
  }, [path, query, options.follow, tries]);
  return { ...state, stream, seen, again };
}
