// Workloads as a list, and one of them: its cities, its instances, its rollout and history, its explanation, and its YAML.
import { link, type Route } from "../logic/routes.ts";
import { visible, word } from "../logic/text.ts";
import { useFollowed } from "../state/loaded.ts";
import { useList } from "../state/lists.ts";
import { useMay } from "../state/rights.ts";
import { Delete } from "../parts/ending.tsx";
import { Existing } from "../parts/existing.tsx";
import { Command, Failed, Loading } from "../parts/states.tsx";
import { LiveTable } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { COMPUTE, WORKLOAD_NAME, named, spaced } from "./paths.ts";
import { Revisions } from "./revisions.tsx";
import { Rollout } from "./rollout.tsx";
import { Scaling } from "./scaling.tsx";
import { TimeLine } from "./timeline.tsx";
import { Why } from "./why.tsx";
import type { Deployment, Workload as Object } from "./workload.ts";
import { YamlText } from "./yaml.tsx";

const TABS = ["cities", "instances", "why", "rollout", "timeline", "revisions", "scaling", "yaml"];
const DEEP = { rollout: Rollout, timeline: TimeLine, revisions: Revisions, scaling: Scaling };

export function Workloads({ route }: { route: Route }) {
  const [namespace, name, tab = "cities"] = route.parts;
  return namespace && name ? <Workload key={`${namespace}/${name}`} namespace={namespace} name={name} tab={tab} /> : <List />;
}

function List() {
  const list = useList(`${COMPUTE}/workloads`);
  return (
    <>
      <h1>Workloads</h1>
      <LiveTable list={list} what="Workloads" empty="No workload yet. Paste one under Change, or kubectl apply -f examples/web.yaml." href={(row) => link("workloads", [row.namespace, row.name])} />
      <Command text="kubectl get workloads -A" />
    </>
  );
}

function Workload({ namespace, name, tab }: { namespace: string; name: string; tab: string }) {
  const path = named(COMPUTE, "workloads", namespace, name);
  const select = { labelSelector: `${WORKLOAD_NAME}=${name}` };
  const deployments = useList(spaced(COMPUTE, "workloaddeployments", namespace), select);
  const may = useMay({ verb: "patch", group: "compute.datumapis.com", resource: "workloads", namespace, name });
  const tabs = TABS.map((each) => ({ name: each, href: link("workloads", [namespace, name, each]) }));
  return (
    <>
      <h1>{visible(`${namespace}/${name}`)}</h1>
      <Existing path={path} what={`workload ${namespace}/${name}`} back={{ href: link("workloads"), name: "All workloads" }}>
        <Tabs tabs={tabs} chosen={tab} />
        {tab === "cities" && <LiveTable list={deployments} what="Cities" empty="No city takes it yet: see why." wide />}
        {tab === "instances" && <Instances namespace={namespace} select={select} />}
        {tab === "why" && <Why path={path} />}
        {tab === "yaml" && <YamlText path={path} />}
        {tab in DEEP && <Deep namespace={namespace} name={name} tab={tab as keyof typeof DEEP} />}
        {!TABS.includes(tab) && <p role="alert">A workload has no “{visible(tab)}”. <a href={link("workloads", [namespace, name])}>To its cities</a></p>}
        <div class="actions">
          {may ? <a href={link("change", [namespace, name])}>Change it</a> : <span class="muted">You may not change workloads here.</span>}
          <Delete what={{ path, group: "compute.datumapis.com", plural: "workloads", namespace, name }} />
        </div>
      </Existing>
      <Command text={commandOf(tab, word(name), `-n ${word(namespace)}`)} />
    </>
  );
}

function Instances({ namespace, select }: { namespace: string; select: Record<string, string> }) {
  const instances = useList(spaced(COMPUTE, "instances", namespace), select);
  return <LiveTable list={instances} what="Instances" empty="No instance yet: see why." href={(row) => link("instances", [row.namespace, row.name])} />;
}

/** The tabs that need the object itself, and its deployments. */
function Deep({ namespace, name, tab }: { namespace: string; name: string; tab: keyof typeof DEEP }) {
  const selector = `labelSelector=${encodeURIComponent(`${WORKLOAD_NAME}=${name}`)}`;
  const own = useList(spaced(COMPUTE, "workloads", namespace), { fieldSelector: `metadata.name=${name}` });
  const parts = useList(spaced(COMPUTE, "workloaddeployments", namespace), { labelSelector: `${WORKLOAD_NAME}=${name}` });
  const workload = useFollowed<Object>(named(COMPUTE, "workloads", namespace, name), own);
  const deployments = useFollowed<{ items: Deployment[] }>(`${spaced(COMPUTE, "workloaddeployments", namespace)}?${selector}`, parts);
  const failure = workload.failure ?? deployments.failure;
  const View = DEEP[tab];
  return (
    <>
      {failure && <Failed failure={failure} again={() => (workload.again(), deployments.again())} />}
      {workload.value && deployments.value ? <View path={named(COMPUTE, "workloads", namespace, name)} workload={workload.value} deployments={deployments.value.items} /> : !failure && <Loading />}
    </>
  );
}

function commandOf(tab: string, name: string, space: string): string {
  const select = `-l ${WORKLOAD_NAME}=${name}`;
  const commands: Record<string, string> = {
    cities: `kubectl get workloaddeployments ${select} ${space} -o wide`, instances: `kubectl get instances ${select} ${space}`,
    why: `tarmac why workload/${name} ${space}`, rollout: `tarmac rollout status ${name} ${space}`,
    timeline: `kubectl events --for workload/${name} ${space}`, revisions: `tarmac rollout history ${name} ${space}`,
    scaling: `kubectl get workloaddeployments ${select} ${space} -o yaml`,
  };
  return commands[tab] ?? `kubectl get workload ${name} ${space} -o yaml`;
}
