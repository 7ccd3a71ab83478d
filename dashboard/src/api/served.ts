// Compares the fields that the page reads with the server's own schemas, from which `_generated/served.ts` is written: a
// field that the server does not have, or has with another type, is an error of the compiler.
import type * as served from "../_generated/served.ts";
import type { CrashedPod } from "../logic/crash.ts";
import type { Address, External } from "../logic/external.ts";
import type { WorkloadSpec } from "../logic/matrix.ts";
import type { WorkloadHistory } from "../logic/readyhistory.ts";
import type { InstanceObject, PodObject, Policy } from "../logic/overview.ts";
import type { EventObject } from "../logic/timeline.ts";
import type { Location } from "../parts/map.tsx";
import type { NodeObject } from "../views/nodeheader.tsx";
import type { Deployment, Workload } from "../views/workload.ts";

/** The path of each field that is read and not served; `never` if there is none. */
type Unserved<Read, Served> =
  unknown extends Read ? never
  : [Read] extends [readonly (infer One)[]] ? (Served extends readonly (infer Other)[] ? Unserved<One, Other> : "is no list")
  : [Read] extends [object] ? (string extends keyof Served ? never : { [Name in keyof Read & string]-?: Name extends keyof Served ? Under<Name, Unserved<NonNullable<Read[Name]>, NonNullable<Served[Name]>>> : Name }[keyof Read & string])
  : [Served] extends [Read] ? never : "has another type";

type Under<Name extends string, Path> = [Path] extends [never] ? never : `${Name}.${Path & string}`;

type None<Path extends never> = Path;

export type Checked = [
  None<Unserved<Workload, served.Workload>>,
  None<Unserved<WorkloadSpec, served.Workload>>,
  None<Unserved<WorkloadHistory, served.WorkloadHistory>>,
  None<Unserved<Deployment, served.WorkloadDeployment>>,
  None<Unserved<InstanceObject, served.Instance>>,
  None<Unserved<Location, served.Location>>,
  None<Unserved<Policy, served.NetworkPolicy>>,
  None<Unserved<External, served.ExternalService>>,
  None<Unserved<Address, served.SourceIP>>,
  None<Unserved<NodeObject, served.Node>>,
  None<Unserved<CrashedPod, served.Pod>>,
  None<Unserved<EventObject, served.Event>>,
  None<Unserved<Omit<PodObject, "spec" | "status">, served.Pod>>, // its classes are fields that only Tarmac's nodes write
];
