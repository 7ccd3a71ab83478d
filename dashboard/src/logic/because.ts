// The sentence of `why` without its beginning: a row and a page name the object themselves already.

/** `Workload shop/web has 0 of 2 instances ready …; in DFW: 1 of 1 instances: no room.` becomes `In DFW: 1 of 1 …`. */
export function because(sentence: string): string {
  const rest = /^(?:Workload|Instance) \S+ has \d+ of \d+ instances? ready in \d+ of \d+ cities(?:; |: )(.+)$/s.exec(sentence)?.[1] ?? sentence;
  return rest.charAt(0).toUpperCase() + rest.slice(1);
}
