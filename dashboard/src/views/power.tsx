// The power buttons of a virtual machine. Actions that stop the guest ask for confirmation.
import { useState } from "preact/hooks";
import { Failure, json } from "../api/requests.ts";
import { visible } from "../logic/text.ts";
import { Failed } from "../parts/states.tsx";
import { useRefusal } from "../state/rights.ts";

const ACTIONS = {
  Reboot: "The guest is asked to power down, and starts again.",
  Reset: "The guest starts again at once, and loses data not yet written to a disk.",
  Pause: "",
  Resume: "",
  Stop: "The guest is asked to power down, and stays down until it is started. Its disks and addresses are kept.",
  Start: "",
} as const;

type Action = keyof typeof ACTIONS;

export function Power({ instance, namespace, name }: { instance: string; namespace: string; name: string }) {
  const [asked, setAsked] = useState<Action | null>(null);
  const [outcome, setOutcome] = useState<string | Failure>("");
  const refused = useRefusal({ verb: "create", group: "compute.datumapis.com", resource: "instances", subresource: "power", namespace, name });
  const press = async (action: Action) => {
    setAsked(null);
    const body = JSON.stringify({ action });
    const said = await json(`${instance}/power`, { method: "POST", type: "application/json", body }).then(
      () => `${action} is done.`, (error: unknown) => (error instanceof Failure ? error : new Failure(0, String(error))));
    setOutcome(said);
  };
  return (
    <section aria-label="Power">
      <p>
        {(Object.keys(ACTIONS) as Action[]).map((each) => (
          <span key={each}><button type="button" disabled={refused !== ""} onClick={() => (ACTIONS[each] ? setAsked(each) : void press(each))}>{each}</button>{" "}</span>
        ))}
        {refused && <span class="muted">{visible(refused)}</span>}
      </p>
      {asked && (
        <div class="failed" role="alertdialog" aria-label={`${asked} ${visible(name)}?`}>
          <p><strong>{asked} {visible(name)}?</strong> {ACTIONS[asked]}</p>
          <p><button type="button" onClick={() => void press(asked)}>{asked} now</button>{" "}<button type="button" onClick={() => setAsked(null)}>Leave it</button></p>
        </div>
      )}
      <div aria-live="polite">{outcome instanceof Failure ? <Failed failure={outcome} /> : outcome && <p class="change">{outcome}</p>}</div>
    </section>
  );
}
