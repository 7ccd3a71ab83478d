// The GPUs on a node's page: how many there are of each model, and each one with its health, its holder and its figures.
import { figuresOf, gpuAccounts, gpuSentence } from "../logic/gpus.ts";
import type { Account } from "../logic/ledger.ts";
import { link } from "../logic/routes.ts";
import { cell, visible } from "../logic/text.ts";
import { Mark, Scrolls } from "../parts/states.tsx";
import { useGpus } from "../state/gpus.ts";

/** Nothing for a node without GPUs. */
export function NodeGpus({ node, resources }: { node: string; resources: readonly Account[] }) {
  const kinds = gpuAccounts(resources);
  const { gpus, why } = useGpus(kinds.length > 0 ? node : "");
  if (kinds.length === 0) return null;
  return (
    <section aria-label="GPUs">
      <h2>GPUs</h2>
      {kinds.map((each) => <p key={each.resource}>{visible(gpuSentence(each))}</p>)}
      {why && <p class="muted">{visible(`The pods that have them are not known: ${why}`)}</p>}
      {gpus && gpus.length > 0 && (
        <Scrolls what="GPUs"><table>
          <thead><tr>{["GPU", "Model", "Health", "Held by", "Figures"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>
            {gpus.map((each) => (
              <tr key={each.uuid}>
                <th scope="row" title={cell(each.uuid)}>{cell(each.index)}</th><td>{cell(each.model)}</td>
                <td><Mark state={each.reason ? "no" : "yes"}>{each.reason || "Healthy"}</Mark></td>
                <td>{each.pod ? <a href={link("instances", [each.namespace, each.pod])}>{cell(`${each.namespace}/${each.pod}`)}</a> : each.reason ? "" : "free"}</td>
                <td>{cell(figuresOf(each))}</td>
              </tr>
            ))}
          </tbody>
        </table></Scrolls>
      )}
    </section>
  );
}
