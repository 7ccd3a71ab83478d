// Parts that start by themselves, such as a terminal. Without the permission the reason is shown in their place.
import type { ComponentChildren } from "preact";
import { visible } from "../logic/text.ts";
import { useVerdict, type Attributes } from "../state/rights.ts";
import { Loading } from "./states.tsx";

export function Permitted({ to, what, children }: { to: string; what: Attributes; children: ComponentChildren }) {
  const refusal = useVerdict(what);
  if (refusal === null) return <Loading />;
  if (refusal === "") return <>{children}</>;
  return (
    <div class="failed" role="alert">
      <p><button type="button" disabled>{to}</button> {visible(refusal)}</p>
      <p class="muted">It takes the right to {what.verb} {what.resource}/{what.subresource ?? ""}. The rest of this page works without.</p>
    </div>
  );
}
