// Permissions of the user, asked of the server. Unknown ones are tried: the server decides.
import { useEffect, useState } from "preact/hooks";
import { json } from "../api/requests.ts";
import { session } from "../api/session.ts";

const GOOD_FOR = 300_000;
const known = new Map<string, { until: number; refusal: Promise<string> }>();

export interface Attributes {
  verb: string;
  group: string;
  resource: string;
  subresource?: string;
  namespace: string;
  name?: string;
}

interface Review {
  status?: { allowed?: boolean; reason?: string };
}

/** The reason of a missing permission; empty with the permission or if it is unknown; null until the server responds. */
export function useVerdict(what: Attributes): string | null {
  const [found, setFound] = useState<{ key: string; refusal: string } | null>(null);
  const key = JSON.stringify(what);
  useEffect(() => {
    let shown = true;
    void asked(what).then((refusal) => shown && setFound({ key, refusal }));
    return () => void (shown = false);
  }, [key]);
  return found?.key === key ? found.refusal : null;
}

/** The same, for controls that do nothing before they are pressed: until the server has answered, one may. */
export function useRefusal(what: Attributes): string {
  return useVerdict(what) ?? "";
}

export function useMay(what: Attributes): boolean {
  return useRefusal(what) === "";
}

function asked(what: Attributes): Promise<string> {
  const key = JSON.stringify([session.value?.token, what]);
  const found = known.get(key);
  if (found && found.until > Date.now()) return found.refusal;
  const body = JSON.stringify({ apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes: what } });
  const refusal = json<Review>("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { method: "POST", type: "application/json", body })
    .then(({ status }) => (status?.allowed === false ? sentence(what, status.reason) : ""), () => "");
  known.set(key, { until: Date.now() + GOOD_FOR, refusal });
  return refusal;
}

function sentence({ verb, resource, subresource, namespace }: Attributes, reason = ""): string {
  return `You may not ${verb} ${resource}${subresource ? `/${subresource}` : ""} in ${namespace}.${reason ? ` ${reason}` : ""}`;
}
