// Deletion: the dialog counts the affected objects by city first, and asks for the name if there are many.
import { useEffect, useState } from "preact/hooks";
import { Failure, failureIn, text } from "../api/requests.ts";
import { ending, mustBeTyped, type Ends } from "../logic/ending.ts";
import { visible } from "../logic/text.ts";
import { announce } from "../state/announcing.ts";
import { everything } from "../state/owned.ts";
import { useMay } from "../state/rights.ts";
import { Dialog } from "./dialog.tsx";
import { Failed, Loading } from "./states.tsx";

export interface Doomed {
  path: string;
  group: string;
  plural: string;
  namespace: string;
  name: string;
}

/** The button that opens the dialog; disabled, with the reason, without the permission. */
export function Delete({ what }: { what: Doomed }) {
  const [open, setOpen] = useState(false);
  const { group, plural, namespace, name } = what;
  const may = useMay({ verb: "delete", group, resource: plural, namespace, name });
  return (
    <div>
      <button type="button" class="ends" disabled={!may} onClick={() => setOpen(true)}>Delete…</button>
      {!may && <span class="muted"> You may not delete {visible(plural)} here.</span>}
      {open && <Asking what={what} closed={() => setOpen(false)} />}
    </div>
  );
}

function Asking({ what, closed }: { what: Doomed; closed: () => void }) {
  const [found, setFound] = useState<{ uid: string; ends: Ends; unseen: string[] } | Failure | null>(null);
  useEffect(() => void look(what).then(setFound, (error: unknown) => setFound(failureIn(error))), []);
  const end = async (uid: string) => {
    try {
      // By uid: an object created anew under the same name was not shown.
      const body = JSON.stringify({ kind: "DeleteOptions", apiVersion: "v1", propagationPolicy: "Background", preconditions: { uid } });
      await text(what.path, { method: "DELETE", type: "application/json", body });
      announce(`${what.name} is being deleted.`);
      closed();
    } catch (error) {
      setFound(failureIn(error));
    }
  };
  return (
    <Dialog title={`Delete ${visible(what.name)}`} closed={closed}>
      {found === null && <Loading />}
      {found instanceof Failure && <Failed failure={found} />}
      {found && !(found instanceof Failure) && <>
        <WhatEnds ends={found.ends} />
        {found.unseen.length > 0 && <p class="muted">You may not list {visible(found.unseen.join(", "))}: what of those ends is not counted.</p>}
        <Confirm name={what.name} verb="Delete" typed={mustBeTyped(found.ends.instances)} act={() => void end(found.uid)} />
      </>}
      <button type="button" onClick={closed}>Cancel</button>
    </Dialog>
  );
}

export function WhatEnds({ ends }: { ends: Ends }) {
  return (
    <>
      {ends.instances === 0 ? <p>No instance ends with it.</p> : (
        <>
          <p>{ends.instances === 1 ? "One instance ends:" : `${ends.instances} instances end:`}</p>
          <ul>{ends.cities.map(([city, count]) => <li key={city}>{visible(city || "in no city")}: {count}</li>)}</ul>
        </>
      )}
      {ends.kinds.length > 0 && <p class="muted">With it go: {ends.kinds.map(([kind, count]) => `${count} ${visible(kind)}`).join(", ")}.</p>}
    </>
  );
}

/** The button that does it; where the name has to be typed, only after it was. */
export function Confirm({ name, verb, typed, act }: { name: string; verb: string; typed: boolean; act: () => void }) {
  const [written, setWritten] = useState("");
  return (
    <form onSubmit={(event) => (event.preventDefault(), act())}>
      {typed && <p><label>Type <strong>{visible(name)}</strong> to go on <input value={written} autocomplete="off" spellcheck={false} onInput={(event) => setWritten(event.currentTarget.value)} /></label></p>}
      <button type="submit" class="ends" disabled={typed && written !== name}>{verb}</button>
    </form>
  );
}

async function look(what: Doomed): Promise<{ uid: string; ends: Ends; unseen: string[] }> {
  const own = JSON.parse(await text(what.path)) as { metadata: { uid: string } };
  const all = what.group === "" && what.plural === "namespaces"; // with a namespace goes everything in it
  const { objects, unseen } = await everything(all ? what.name : what.namespace);
  const uids = all ? objects.map((each) => each.uid) : [own.metadata.uid];
  return { uid: own.metadata.uid, ends: ending(uids, objects), unseen };
}
