// A small ring that fills with ready of desired. It decorates: the words beside it say the same.
import { TONES, type Severity } from "../logic/severity.ts";

const RADIUS = 6;
const AROUND = 2 * Math.PI * RADIUS;

export function Ring({ share, severity }: { share: number; severity: Severity }) {
  const filled = Math.max(0, Math.min(1, share)) * AROUND;
  return (
    <svg class={`dial ${TONES[severity]}`} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <circle class="hole" cx="8" cy="8" r={RADIUS} />
      <circle class="filled" cx="8" cy="8" r={RADIUS} stroke-dasharray={`${filled} ${AROUND}`} transform="rotate(-90 8 8)" />
    </svg>
  );
}
