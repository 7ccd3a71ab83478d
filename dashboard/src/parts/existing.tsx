// The page of one object: its content while the object exists, the reason and a way on when it does not.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";
import { Command } from "./states.tsx";

const EVERY = 5000;
const METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

interface Props {
  path: string;
  /** Another object with the same name, which the page shows as well if there is no first one. */
  or?: string;
  /** Such as “workload shop/frontend”. */
  what: string;
  back: { href: string; name: string };
  /** The heading while there is no object; otherwise the children have one. */
  title?: string;
  /** The command line that says the same, where the children have it otherwise. */
  command?: string;
  children: ComponentChildren;
}

export function Existing({ path, or, what, back, title, command, children }: Props) {
  const first = useLoaded<object>(path, EVERY, METADATA);
  const otherwise = first.failure?.code === 404 && !first.value ? (or ?? "") : "";
  const second = useLoaded<object>(otherwise, EVERY, METADATA);
  const { value, failure } = otherwise ? second : first;
  const seen = useRef("");
  useEffect(() => {
    if (value) seen.current = path;
  }, [value, path]);
  const missing = failure?.code === 404;
  // Without the permission nothing is known of it: its parts say so themselves. A deleted object's parts stay mounted, or
  // they would ask again for deleted objects.
  if (!missing || (value && seen.current === path)) return (
    <>
      {missing && <p class="stale" role="status">This {visible(what)} was deleted. What is shown is its last state. <a href={back.href}>{back.name}</a></p>}
      {children}
    </>
  );
  return (
    <>
      {title && <h1>{visible(title)}</h1>}
      <div class="empty" role="alert">
        <p><strong>There is no {visible(what)}.</strong> {visible(failure.message)}</p>
        <p><a href={back.href}>{back.name}</a></p>
      </div>
      {command && <Command text={command} />}
    </>
  );
}
