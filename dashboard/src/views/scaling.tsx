// Inputs of the autoscaler: each city's last reported metrics, and the resulting number of instances.
import { age, cell } from "../logic/text.ts";
import { now } from "../state/navigation.ts";
import { Scrolls } from "../parts/states.tsx";
import type { Deployment, Parts } from "./workload.ts";

export function Scaling({ deployments }: Parts) {
  const measured = deployments.some((each) => each.status?.scaling?.metrics?.length);
  return (
    <section aria-label="Scaling">
      {!measured && <p class="muted">Nothing is measured here: without metrics in its scaleSettings a placement has minReplicas instances in each city.</p>}
      {deployments.length > 0 && (
        <Scrolls what="Scaling"><table>
          <thead><tr>{["City", "Placement", "Least", "Most", "Wanted", "Metric", "Value", "Target", "Asks for", "Told"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
          <tbody>{deployments.flatMap((each) => rows(each))}</tbody>
        </table></Scrolls>
      )}
    </section>
  );
}

function rows({ metadata, spec, status }: Deployment) {
  const { minReplicas, maxReplicas } = spec.scaleSettings;
  const scaling = status?.scaling;
  const metrics = scaling?.metrics?.length ? scaling.metrics : [null];
  return metrics.map((metric, index) => (
    <tr key={`${metadata.uid} ${index}`}>
      <th scope="row">{cell(spec.cityCode)}</th><td>{cell(spec.placementName)}</td><td>{cell(minReplicas)}</td><td>{cell(maxReplicas)}</td>
      <td>{cell(scaling?.wanted ?? status?.desiredReplicas)}</td>
      <td>{cell(metric?.name)}</td><td>{metric && cell(metric.value || "not known")}</td><td>{cell(metric?.target)}</td><td>{cell(metric?.replicas)}</td>
      <td>{scaling?.time && age(scaling.time, now.value)}</td>
    </tr>
  ));
}
