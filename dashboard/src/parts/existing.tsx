// The page of one object: its content while the object exists, the reason and a way on when it does not.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { visible } from "../logic/text.ts";
import { useLoaded } from "../state/loaded.ts";

const EVERY = 5000;
const METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";

interface Props {
  path: string;
  /** Such as “workload shop/frontend”. */
  what: string;
  back: { href: string; name: string };
  children: ComponentChildren;
}

export function Existing({ path, what, back, children }: Props) {
  const { value, failure } = useLoaded<object>(path, EVERY, METADATA);
  const seen = useRef("");
  useEffect(() => {
    if (value) seen.current = path;
  }, [value, path]);
  const missing = failure?.code === 404;
  // Without the permission nothing is known of it: its parts say so themselves. A deleted object's parts stay mounted, or
  // they would ask again for what is gone.
  if (!missing || (value && seen.current === path)) return (
    <>
      {missing && <p class="stale" role="status">This {visible(what)} was deleted. What is shown is its last state. <a href={back.href}>{back.name}</a></p>}
      {children}
    </>
  );
  return (
    <div class="nothing" role="alert">
      <p><strong>There is no {visible(what)}.</strong> {visible(failure.message)}</p>
      <p><a href={back.href}>{back.name}</a></p>
    </div>
  );
}
