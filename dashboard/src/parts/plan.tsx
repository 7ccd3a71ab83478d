// A plan, on the map and as a table: instances that a change creates, replaces, moves and deletes, city by city.
import { endings, outlook, planned, sentence, type CityPlan, type Plan } from "../logic/plans.ts";
import { cell, visible } from "../logic/text.ts";
import { Mark, Scrolls } from "./states.tsx";
import { placeOf, placesOf, useLocations, WorldMap } from "./map.tsx";

const WORDS = { yes: "Comes or stays", wait: "Changes", no: "Refused", unknown: "Unknown" };

export function PlanShown({ plan }: { plan: Plan }) {
  const places = placesOf(useLocations().value?.items ?? []);
  const shown = plan.cities.map((each) => ({
    code: each.city, at: places.get(each.city) ?? placeOf(each.city), state: outlook(each), label: planned(each), size: each.create + each.replace + each.keep,
  }));
  return (
    <section aria-label="Preview">
      <h2>Preview</h2>
      <p>{sentence(plan)}</p>
      {shown.some((each) => each.at) && <WorldMap places={shown} label={`Map of ${shown.length} cities with their changes; the same as a list below`} />}
      <Scrolls what="Preview by city"><table>
        <thead><tr>{["City", "What", "Create", "Replace", "Move", "Delete", "Keep", "Wave", "Refused, or ended to make room"].map((each) => <th scope="col" key={each}>{each}</th>)}</tr></thead>
        <tbody>{plan.cities.map((each) => <City key={each.city} city={each} />)}</tbody>
      </table></Scrolls>
    </section>
  );
}

function City({ city }: { city: CityPlan }) {
  const others = endings({ accepted: true, causes: [], cities: [{ ...city, delete: 0 }] }).get(city.city) ?? 0;
  const notes = [...city.refused.map((no) => `${no.reason}: ${no.message} ${no.change}`), ...(others ? [`${others} less important pods end here`] : [])];
  return (
    <tr>
      <th scope="row">{cell(city.city)}</th>
      <td><Mark state={outlook(city)}>{WORDS[outlook(city)]}</Mark></td>
      <td>{city.create}</td><td>{city.replace}</td><td>{city.moved}</td><td>{city.delete}</td><td>{city.keep}</td><td>{city.wave || ""}</td>
      <td class="long">{visible(notes.join("; "))}</td>
    </tr>
  );
}
