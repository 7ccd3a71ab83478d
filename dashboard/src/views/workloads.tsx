// Workloads as a list, and one of them: its cities, its instances, its rollout and history, its explanation, and its YAML.
import { useMemo } from "preact/hooks";
import type { Column, LiveList, Row } from "../api/listwatch.ts";
import { because } from "../logic/because.ts";
import { link, type Route } from "../logic/routes.ts";
import { attention, byUrgency, severityOf, textOf, TONES, type Severity } from "../logic/severity.ts";
import { age, cell, visible, word } from "../logic/text.ts";
import { useFollowed, type Loaded } from "../state/loaded.ts";
import { useList } from "../state/lists.ts";
import { now } from "../state/navigation.ts";
import { useSentence } from "../state/answers.ts";
import { Existing } from "../parts/existing.tsx";
import { ReadyLine } from "../parts/readyline.tsx";
import { Meter, Pill } from "../parts/severity.tsx";
import { Command, Failed, Loading } from "../parts/states.tsx";
import { LiveTable, type More } from "../parts/table.tsx";
import { Tabs } from "../parts/tabs.tsx";
import { CityGrid } from "./citygrid.tsx";
import { COMPUTE, WORKLOAD_NAME, named, spaced } from "./paths.ts";
import { Revisions } from "./revisions.tsx";
import { Rollout } from "./rollout.tsx";
import { Scaling } from "./scaling.tsx";
import { TimeLine } from "./timeline.tsx";
import { Why } from "./why.tsx";
import { Actions } from "./workloadactions.tsx";
import { imagesOf, type Deployment, type Workload as Object } from "./workload.ts";
import { YamlText } from "./yaml.tsx";

const TABS = ["overview", "instances", "why", "rollout", "timeline", "revisions", "scaling", "yaml"];
const DEEP = { rollout: Rollout, timeline: TimeLine, revisions: Revisions, scaling: Scaling };
const DOTS = 12;
const NONE: readonly Column[] = [];
const SAID_BETTER = ["Cities", "Reason", "Up-to-date"];

export function Workloads({ route }: { route: Route }) {
  const [namespace, name, tab = "overview"] = route.parts;
  return namespace && name ? <Workload key={`${namespace}/${name}`} namespace={namespace} name={name} tab={tab} /> : <List />;
}

function List() {
  const list = useList(`${COMPUTE}/workloads`);
  const deployments = useList(`${COMPUTE}/workloaddeployments`);
  const parts = useMemo(() => byWorkload(deployments?.rows.value ?? [], deployments?.columns.value ?? []), [deployments?.rows.value, deployments?.columns.value]);
  const columns = list?.columns.value ?? NONE;
  const more = useMemo((): readonly More[] => [
    { name: "By city", render: (row) => <Dots cities={parts.get(`${row.namespace}/${row.name}`) ?? []} /> },
    { name: "Why", render: (row, found) => <Because path={attention(found) ? named(COMPUTE, "workloads", row.namespace, row.name) : ""} reason={textOf(row, columns, "Reason")} /> },
    { name: "Tag", render: (row) => <code title={cell(textOf(row, columns, "Image"))}>{cell(tagOf(textOf(row, columns, "Image")))}</code> },
    { name: "Revision", render: (row) => cell(textOf(row, columns, "Revision")) },
  ], [parts, columns]);
  return (
    <>
      <h1>Workloads</h1>
      <LiveTable list={list} what="Workloads" empty="No workload yet. Create one under Change, or kubectl apply -f examples/web.yaml." href={(row) => link("workloads", [row.namespace, row.name])} urgent more={more} without={SAID_BETTER} />
      <Command text="kubectl get workloads -A" />
    </>
  );
}

/** What distinguishes two releases of an image: its tag, or the begin of its digest. */
function tagOf(image: string): string {
  const last = image.split("/").at(-1) ?? "";
  return /@[a-z0-9]+:(.{8})/.exec(last)?.[1] ?? last.split(":")[1] ?? last;
}

interface CityDot {
  city: string;
  ready: string;
  severity: Severity;
}

function byWorkload(rows: readonly Row[], columns: readonly Column[]): Map<string, CityDot[]> {
  const found = new Map<string, CityDot[]>();
  for (const row of rows) {
    const key = `${row.namespace}/${row.labels[WORKLOAD_NAME] ?? ""}`;
    const cities = found.get(key) ?? [];
    found.set(key, cities);
    cities.push({ city: textOf(row, columns, "City"), ready: textOf(row, columns, "Ready"), severity: severityOf(row, columns) });
  }
  return found;
}

/** A dot for each city, the most urgent first. */
function Dots({ cities }: { cities: readonly CityDot[] }) {
  const shown = cities.toSorted((a, b) => byUrgency(a.severity, b.severity) || a.city.localeCompare(b.city));
  return (
    <span class="dots">
      {shown.slice(0, DOTS).map((each, index) => <i key={index} class={TONES[each.severity]} title={cell(`${each.city} ${each.ready}`)} />)}
      {shown.length > DOTS && <span class="muted">+{shown.length - DOTS}</span>}
    </span>
  );
}

function Because({ path, reason }: { path: string; reason: string }) {
  const said = useSentence(path);
  return path && said ? <span class="because" title={cell(`${said.sentence} ${said.change}`)}>{cell(because(said.sentence))}</span> : <span class="muted">{cell(reason)}</span>;
}

function Workload({ namespace, name, tab }: { namespace: string; name: string; tab: string }) {
  const path = named(COMPUTE, "workloads", namespace, name);
  const select = { labelSelector: `${WORKLOAD_NAME}=${name}` };
  const own = useList(spaced(COMPUTE, "workloads", namespace), { fieldSelector: `metadata.name=${name}` });
  const deployments = useList(spaced(COMPUTE, "workloaddeployments", namespace), select);
  const workload = useFollowed<Object>(path, own);
  const tabs = TABS.map((each) => ({ name: each, href: link("workloads", [namespace, name, each]) }));
  return (
    <>
      <Existing path={path} what={`workload ${namespace}/${name}`} back={{ href: link("workloads"), name: "All workloads" }} title={`${namespace}/${name}`}>
        <div class="headline">
          <h1>{visible(`${namespace}/${name}`)}</h1>
          <State list={own} />
          <Actions path={path} namespace={namespace} name={name} workload={workload.value} />
        </div>
        <Headline path={path} list={own} workload={workload.value} />
        <Tabs tabs={tabs} chosen={tab} />
        {tab === "overview" && <Overview namespace={namespace} name={name} list={deployments} workload={workload.value} />}
        {tab === "instances" && <Instances namespace={namespace} select={select} />}
        {tab === "why" && <Why path={path} />}
        {tab === "yaml" && <YamlText path={path} />}
        {tab in DEEP && <Deep namespace={namespace} name={name} tab={tab as keyof typeof DEEP} workload={workload} />}
        {!TABS.includes(tab) && <p role="alert">A workload has no “{visible(tab)}”. <a href={link("workloads", [namespace, name])}>To its overview</a></p>}
      </Existing>
      <Command text={commandOf(tab, word(name), `-n ${word(namespace)}`)} />
    </>
  );
}

function State({ list }: { list: LiveList | null }) {
  const [row, columns] = [list?.rows.value[0], list?.columns.value ?? []];
  return row ? <Pill severity={severityOf(row, columns)}>{textOf(row, columns, "Status")}</Pill> : null;
}

/** The sentence of `why` where there is trouble, then the workload in a few words. */
function Headline({ path, list, workload }: { path: string; list: LiveList | null; workload: Object | null }) {
  const [row, columns] = [list?.rows.value[0], list?.columns.value ?? []];
  const found = row ? severityOf(row, columns) : "unknown";
  const said = useSentence(attention(found) ? path : "");
  if (!row) return null;
  const ready = textOf(row, columns, "Ready");
  return (
    <>
      {said && attention(found) && <p class="said">{visible(because(said.sentence))}{said.change && <span class="muted"> {visible(said.change)}</span>}</p>}
      <p class="bits">
        <span><Meter text={ready} severity={found} /> ready</span>
        <ReadyLine path={path} />
        <span><strong>{cell(textOf(row, columns, "Cities"))}</strong> cities</span>
        {workload && imagesOf(workload).map((each) => <span key={each}><code>{cell(each)}</code></span>)}
        {workload?.status?.rollout && <span>revision <strong>{workload.status.rollout.revision}</strong></span>}
        <span>{age(row.created, now.value)} old</span>
        {labelsOf(row).map((each) => <span key={each} class="label">{cell(each)}</span>)}
      </p>
    </>
  );
}

const OWN = /(^|\.)(datumapis\.com|tarmac|kubernetes\.io)\//;
const MOST_LABELS = 6;

/** Labels that its owners gave it, such as `team=payments`. */
function labelsOf(row: Row): string[] {
  return Object.entries(row.labels).filter(([key]) => !OWN.test(key)).slice(0, MOST_LABELS).map(([key, value]) => (value ? `${key}=${value}` : key));
}

function Overview({ namespace, name, list, workload }: { namespace: string; name: string; list: LiveList | null; workload: Object | null }) {
  const deployments = useDeployments(namespace, name, list);
  return <CityGrid namespace={namespace} name={name} list={list} workload={workload} deployments={deployments.value?.items ?? []} />;
}

function useDeployments(namespace: string, name: string, list: LiveList | null): Loaded<{ items: Deployment[] }> {
  return useFollowed(`${spaced(COMPUTE, "workloaddeployments", namespace)}?labelSelector=${encodeURIComponent(`${WORKLOAD_NAME}=${name}`)}`, list);
}

function Instances({ namespace, select }: { namespace: string; select: Record<string, string> }) {
  const instances = useList(spaced(COMPUTE, "instances", namespace), select);
  return <LiveTable list={instances} what="Instances" empty="No instance yet: see why." href={(row) => link("instances", [row.namespace, row.name])} urgent />;
}

/** The tabs that need the object itself, and its deployments. */
function Deep({ namespace, name, tab, workload }: { namespace: string; name: string; tab: keyof typeof DEEP; workload: Loaded<Object> }) {
  const parts = useList(spaced(COMPUTE, "workloaddeployments", namespace), { labelSelector: `${WORKLOAD_NAME}=${name}` });
  const deployments = useDeployments(namespace, name, parts);
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
    overview: `kubectl get workloaddeployments ${select} ${space} -o wide`, instances: `kubectl get instances ${select} ${space}`,
    why: `tarmac why workload/${name} ${space}`, rollout: `tarmac rollout status ${name} ${space}`,
    timeline: `kubectl events --for workload/${name} ${space}`, revisions: `tarmac rollout history ${name} ${space}`,
    scaling: `kubectl get workloaddeployments ${select} ${space} -o yaml`,
  };
  return commands[tab] ?? `kubectl get workload ${name} ${space} -o yaml`;
}
