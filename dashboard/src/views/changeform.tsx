// Beside the editor: texts to start from, and the fields that change most often. The text stays the one truth: a field shows
// what it says, and writes into it.
import { link } from "../logic/routes.ts";
import type { FieldName, FormField } from "../logic/form.ts";
import { templatesIn } from "../logic/templates.ts";
import { useList } from "../state/lists.ts";
import { textOf } from "../logic/severity.ts";
import { visible } from "../logic/text.ts";
import { COMPUTE, NETWORKING } from "./paths.ts";

const MOST = 200; // Workloads to copy from

export function Start({ start }: { start: (text: string) => void }) {
  const places = useList(`${NETWORKING}/locations`);
  const workloads = useList(`${COMPUTE}/workloads`);
  const cities = [...new Set((places?.rows.value ?? []).map((row) => textOf(row, places?.columns.value ?? [], "City")))].filter(Boolean).sort();
  const rows = workloads?.rows.value ?? [];
  return (
    <section class="start" aria-label="Start from">
      <h2>Start from</h2>
      <ul class="grid">
        {templatesIn(cities).map((each) => (
          <li key={each.name}><button type="button" class="card" onClick={() => start(each.text)}><strong>{each.name}</strong><span class="muted">{each.about}</span></button></li>
        ))}
      </ul>
      {rows.length > 0 && (
        <p><label>Or change a Workload <select value="" onChange={(event) => (location.hash = event.currentTarget.value)}>
          <option value="">choose one</option>
          {rows.slice(0, MOST).map((row) => <option key={row.uid} value={link("change", [row.namespace, row.name])}>{visible(`${row.namespace}/${row.name}`)}</option>)}
        </select></label> <span class="muted">or paste YAML or JSON below.</span></p>
      )}
    </section>
  );
}

export function Form({ fields, write }: { fields: readonly FormField[]; write: (name: FieldName, value: string) => void }) {
  if (fields.length === 0) return null;
  return (
    <form class="fields" aria-label="Fields" onSubmit={(event) => event.preventDefault()}>
      {fields.map(({ name, label, value }) => (
        <label key={name} class={name}>{label}
          <input value={value} type={name === "replicas" || name === "port" ? "number" : "text"} min={0} spellcheck={false} autocomplete="off" onChange={(event) => write(name, event.currentTarget.value)} />
        </label>
      ))}
    </form>
  );
}
