// Placeholders of a part: loading, empty, forbidden, failed, stale.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Failure } from "../api/requests.ts";
import { MARKS, WORDS, type State } from "../logic/health.ts";
import { cell, visible, word } from "../logic/text.ts";
import { copy } from "../state/announcing.ts";
import { old } from "../state/freshness.ts";
import { namespace } from "../state/namespace.ts";

const ROWS = [1, 2, 3, 4, 5];

export function Mark({ state, children }: { state: State; children?: string }) {
  return (
    <span class={`mark ${state}`}>
      <span aria-hidden="true">{MARKS[state]}</span> {cell(children ?? WORDS[state])}
    </span>
  );
}

export function Loading() {
  const [late, setLate] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setLate(true), 200);
    return () => clearTimeout(timer);
  }, []);
  if (!late) return null;
  return <div class="skeleton" role="status"><span class="unseen">Loading…</span>{ROWS.map((each) => <i key={each} aria-hidden="true" />)}</div>;
}

interface Missing {
  /** Such as “The terminal could not be opened.” */
  title: string;
  reason: string;
  /** Tries again. */
  again?: () => void;
  name?: string;
  /** Another view that helps meanwhile. */
  instead?: { href: string; name: string };
}

/** In place of a part that could not be opened: its reason, and the next step. */
export function Unavailable({ title, reason, again, name = "Try again", instead }: Missing) {
  return (
    <div class="empty" role="alert">
      <p><strong>{title}</strong></p>
      <p>{visible(reason)}</p>
      <p class="actions">
        {again && <button type="button" class="primary" onClick={again}>{name}</button>}
        {instead && <a class="button" href={instead.href}>{instead.name}</a>}
      </p>
    </div>
  );
}

/** The id under which the server's audit log has the request: for operators, so it is folded away. */
export function AuditId({ id }: { id: string }) {
  return id ? <details><summary>Details</summary><p class="muted">Audit-Id {visible(id)}</p></details> : null;
}

export function Failed({ failure, again }: { failure: Failure; again?: () => void }) {
  return (
    <div class="failed" role="alert">
      <p><strong>{failure.code === 403 ? "You don't have permission to see this." : "This could not be loaded."}</strong> {visible(failure.message)}</p>
      {failure.causes.map((each) => <p class="muted" key={each.field}>{visible(`${each.field ?? ""}: ${each.message ?? ""}`)}</p>)}
      <AuditId id={failure.auditId} />
      {again && failure.code !== 403 && <button type="button" onClick={again}>Try again</button>}
    </div>
  );
}

/** The bar that says since when the page is stale. */
export function Old() {
  if (!old.value) return null;
  const { since, away } = old.value;
  const why = away ? "The connection is lost: this page is of" : "The server gives no newer answer: some of this page is of";
  return <p class="stale old" role="status">{why} {new Date(since).toLocaleTimeString()}.</p>;
}

export function Command({ text: all }: { text: string }) {
  const text = namespace.value ? all.replace(/ -A\b/, ` -n ${word(namespace.value)}`) : all;
  return (
    <p class="command">
      <code>{visible(text)}</code>{" "}
      <button type="button" onClick={() => void copy(text)} aria-label={`Copy ${visible(text)}`}>Copy</button>
    </p>
  );
}

/** Content that may be wider than the screen scrolls on its own, also by keyboard. */
export function Scrolls({ what, children }: { what: string; children: ComponentChildren }) {
  return <div class="scroll" tabIndex={0} role="region" aria-label={`${what}, scrolls`}>{children}</div>;
}
