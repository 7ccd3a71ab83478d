// The editor for a change: a template or an object to start from, a short form, YAML with its errors at their lines, beside
// it a preview by city, then Apply.
//
// A text may hold several objects, in block style, flow style or JSON; the server judges each. Only a previewed text can be
// applied; the next keystroke discards the preview. Fields of other field managers are taken over only after the managers
// were shown, and objects that would be deleted are listed first.
import { useEffect, useRef, useState } from "preact/hooks";
import { apply, PartFailure, preview, UNADDRESSED, type Previewed, type Target } from "../api/changes.ts";
import { Failure, failureIn, text } from "../api/requests.ts";
import { schemas } from "../api/schemas.ts";
import type { FieldName } from "../logic/form.ts";
import { editable, type Part } from "../logic/manifest.ts";
import { endings } from "../logic/plans.ts";
import { problemsOf, within, type Located } from "../logic/problems.ts";
import { kindOf } from "../logic/schema.ts";
import { link, type Route } from "../logic/routes.ts";
import { visible } from "../logic/text.ts";
import { drafts, keep } from "../state/drafts.ts";
import { mustBeTyped } from "../logic/ending.ts";
import type { Editor as Made, Known } from "../parts/codemirror.ts";
import { Dialog } from "../parts/dialog.tsx";
import { Editor } from "../parts/editor.tsx";
import { Confirm, WhatEnds } from "../parts/ending.tsx";
import { PlanShown } from "../parts/plan.tsx";
import { AuditId, Command, Failed, Loading, Scrolls } from "../parts/states.tsx";
import { Form, Start } from "./changeform.tsx";
import { COMPUTE, named } from "./paths.ts";

export function Change({ route }: { route: Route }) {
  const [namespace = "", name = ""] = route.parts;
  const about = name ? `${namespace}/${name}` : "";
  const [failure, setFailure] = useState<Failure | null>(null);
  const draft = drafts.value.get(about) ?? (name ? null : "");
  useEffect(() => {
    if (draft !== null) return;
    text(named(COMPUTE, "workloads", namespace, name), { accept: "application/yaml" }).then((yaml) => keep(about, editable(yaml)), (error: unknown) => setFailure(failureIn(error)));
  }, [about]);
  return (
    <>
      <h1>{visible(about ? `Change ${about}` : "Change")}</h1>
      {draft !== null ? <Changing key={about} about={about} draft={draft} /> : failure ? <Failed failure={failure} /> : <Loading />}
    </>
  );
}

type Outcome =
  | { is: "refused"; problems: Located[]; failure: Failure }
  | { is: "owned"; problems: Located[]; failure: Failure }
  | { is: "previewed"; found: Previewed[]; force: boolean }
  | { is: "applied"; targets: Target[] };

function Changing({ about, draft }: { about: string; draft: string }) {
  const editor = useRef<Made | null>(null);
  const [outcome, setOutcome] = useState<Outcome | null>(null);
  const [here, setHere] = useState(false);
  const [busy, setBusy] = useState(false);
  const [asking, setAsking] = useState(false);
  useKnown(here, editor);
  const made = (loaded: Made | null) => {
    editor.current = loaded;
    setHere(loaded !== null);
  };
  const changed = (written: string) => {
    keep(about, written);
    setOutcome(null);
  };
  const act = async (what: () => Promise<Outcome>) => {
    const yaml = editor.current?.text() ?? draft;
    setBusy(true);
    setAsking(false);
    try {
      editor.current?.tell([]);
      const found = await what();
      // The user typed meanwhile: the response belongs to an older text.
      if (editor.current?.text() === yaml) setOutcome(found);
    } catch (error) {
      setOutcome(refused(error, editor.current));
    } finally {
      setBusy(false);
    }
  };
  const look = (force: boolean) => act(async () => {
    const parts = editor.current?.parts() ?? [];
    if (parts.length === 0) throw new Failure(400, "There is no object in the text yet.", UNADDRESSED);
    return { is: "previewed", found: await preview(parts, force), force };
  });
  const ready = outcome?.is === "previewed" ? outcome : null;
  const targets = (ready?.found ?? []).map((each) => each.target);
  const commit = () => ready && void act(async () => {
    await apply(targets, ready.force);
    return { is: "applied", targets };
  });
  const ending = (ready?.found ?? []).filter((each) => each.plan && endings(each.plan).size);
  const ends = [...endings({ accepted: true, causes: [], cities: ending.flatMap((each) => each.plan?.cities ?? []) })];
  const name = ending.map((each) => each.target.name).join(" ");
  const ended = ends.reduce((sum, [, count]) => sum + count, 0);
  const write = (name: FieldName, value: string) => {
    const field = editor.current?.form().find((each) => each.name === name);
    if (field) editor.current?.write(field, value);
  };
  return (
    <div class="changing">
      <div>
        {!draft.trim() && here && <Start start={(text) => editor.current?.set(text)} />}
        <Form fields={here ? (editor.current?.form() ?? []) : []} write={write} />
        <Editor text={draft} label="Objects, as YAML or JSON" changed={changed} preview={() => void look(false)} made={made} />
        <p class="actions">
          <button type="button" class={ready ? "" : "primary"} disabled={busy || !here || !draft.trim()} onClick={() => void look(false)}>Preview</button>
          <button type="button" class={ready ? "primary" : ""} disabled={busy || !ready} onClick={() => (ended ? setAsking(true) : commit())}>Apply</button>
          {!ready && <span class="muted">Ctrl-Enter previews; what was previewed can be applied.</span>}
        </p>
      </div>
      <div aria-live="polite">
        {outcome ? <Shown outcome={outcome} goTo={(line) => editor.current?.goTo(line)} takeOver={() => void look(true)} /> : <p class="empty">A preview shows here the instances that would be created, replaced, moved and ended in each city, before anything changes.</p>}
      </div>
      {asking && ready && (
        <Dialog title={`Apply ${visible(name)}`} closed={() => setAsking(false)}>
          <WhatEnds ends={{ cities: ends, kinds: [], instances: ended }} />
          <Confirm name={name} verb="Apply" typed={mustBeTyped(ended)} act={commit} />
          <button type="button" onClick={() => setAsking(false)}>Cancel</button>
        </Dialog>
      )}
      <Command text={targets.some((each) => !each.plans) ? "kubectl apply --server-side --dry-run=server -f FILE" : "tarmac plan -f FILE"} />
    </div>
  );
}

function refused(error: unknown, editor: Made | null): Outcome {
  const failure = error instanceof PartFailure ? error.failure : failureIn(error);
  const owned = failure.code === 409 && failure.causes.some((each) => each.reason === "FieldManagerConflict");
  const problems = error instanceof PartFailure ? within(problemsOf(failure), error.part) : problemsOf(failure);
  return { is: owned ? "owned" : "refused", failure, problems: editor?.tell(problems) ?? [] };
}

/** Pass the server's schemas to the editor whenever the kinds in the text change. */
function useKnown(here: boolean, editor: { current: Made | null }): void {
  const parts = here ? (editor.current?.parts() ?? []) : [];
  const kinds = parts.map((each) => `${each.document} ${each.apiVersion} ${each.kind}`).join(",");
  useEffect(() => {
    let over = false;
    // Without a schema there is no completion; the preview says the rest.
    void Promise.all(parts.filter((each) => each.apiVersion && each.kind).map(known)).then((found) => {
      if (!over) editor.current?.know(new Map(found.filter((each) => each !== null)));
    });
    return () => void (over = true);
  }, [kinds, here]);
}

async function known({ document: at, apiVersion, kind }: Part): Promise<[number, Known] | null> {
  const [version = "", group = ""] = apiVersion.split("/").reverse();
  const document = await schemas(apiVersion).catch(() => null);
  const schema = document && kindOf(document, group, version, kind);
  return document && schema ? [at, { document, schema }] : null;
}

function Shown({ outcome, goTo, takeOver }: { outcome: Outcome; goTo: (line: number) => void; takeOver: () => void }) {
  if (outcome.is === "previewed") return <>{outcome.found.map(({ target, plan }) => <Foreseen key={target.document} target={target} plan={plan} />)}</>;
  if (outcome.is === "applied") return <>{outcome.targets.map((each) => <Applied key={each.document} target={each} />)}</>;
  if (outcome.is === "owned") return <Owners problems={outcome.problems} failure={outcome.failure} takeOver={takeOver} />;
  return (
    <div class="failed" role="alert">
      <p><strong>{outcome.failure.reason === UNADDRESSED ? "It cannot be sent yet." : "The server would not take it."}</strong></p>
      <ul class="problems">
        {outcome.problems.map((each, index) => (
          <li key={index}><button type="button" onClick={() => goTo(each.line)}>Line {each.line}</button> {visible(each.message)}</li>
        ))}
      </ul>
      <AuditId id={outcome.failure.auditId} />
    </div>
  );
}

function Foreseen({ target, plan }: Previewed) {
  return plan ? <PlanShown plan={plan} /> : <p class="change">The server would take {visible(target.kind)} {visible(target.name)}.</p>;
}

function Owners({ problems, failure, takeOver }: { problems: Located[]; failure: Failure; takeOver: () => void }) {
  return (
    <div class="failed" role="alert">
      <p><strong>Other managers own fields that you change.</strong> Leave those fields as they are, or take them over: their present owners get a conflict the next time they apply.</p>
      <Scrolls what="Owners"><table>
        <thead><tr><th scope="col">Line</th><th scope="col">Field</th><th scope="col">Owner</th></tr></thead>
        <tbody>
          {failure.causes.map((each, index) => (
            <tr key={index}><td>{problems[index]?.line}</td><td class="long">{visible(each.field ?? "")}</td><td>{visible((each.message ?? "").replace(/^conflict with /, ""))}</td></tr>
          ))}
        </tbody>
      </table></Scrolls>
      <p><button type="button" onClick={takeOver}>Take over, and preview</button></p>
    </div>
  );
}

function Applied({ target }: { target: Target }) {
  const where = target.plans ? link("workloads", [target.namespace, target.name, "rollout"]) : "";
  const name = visible(target.namespace ? `${target.namespace}/${target.name}` : target.name);
  return <p class="change">{name} is applied.{where && <> <a href={where}>See its rollout</a>, or <a href={link("planet")}>the planet</a>.</>}</p>;
}
