// A state as a shape, a colour and a word; and ready of desired as a bar beside its numbers.
import { fraction } from "../logic/health.ts";
import { SHAPES, TONES, type Severity } from "../logic/severity.ts";
import { cell } from "../logic/text.ts";

export function Pill({ severity, children }: { severity: Severity; children: string }) {
  return <span class={`pill ${TONES[severity]}`}><span aria-hidden="true">{SHAPES[severity]}</span> {cell(children)}</span>;
}

/** The bar is decoration: the numbers beside it say the same. */
export function Meter({ text, severity }: { text: string; severity: Severity }) {
  const parts = fraction(text);
  if (!parts) return <>{cell(text)}</>;
  const share = parts[1] ? Math.min(1, parts[0] / parts[1]) : 1;
  const fill = (made: HTMLElement | null) => made?.style.setProperty("width", `${Math.round(share * 100)}%`); // by CSSOM: the policy forbids the attribute
  return <span class={`meter ${TONES[severity]}`}><span class="track" aria-hidden="true"><i ref={fill} /></span> {cell(text)}</span>;
}
