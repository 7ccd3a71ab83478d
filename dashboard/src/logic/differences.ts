// Differences between two templates, field by field; elements of lists go by their names where they have some.

export interface Difference {
  field: string;
  before: string;
  after: string;
}

export function differences(before: unknown, after: unknown): Difference[] {
  const [was, is] = [flat(before), flat(after)];
  const names = [...new Set([...was.keys(), ...is.keys()])].sort();
  return names.flatMap((field) => (was.get(field) === is.get(field) ? [] : [{ field, before: was.get(field) ?? "", after: is.get(field) ?? "" }]));
}

function flat(value: unknown, path = "", into = new Map<string, string>()): Map<string, string> {
  if (Array.isArray(value)) value.forEach((each: unknown, index) => flat(each, `${path}[${nameOf(each) ?? index}]`, into));
  else if (value && typeof value === "object") for (const [name, each] of Object.entries(value)) flat(each, path ? `${path}.${name}` : name, into);
  else if (value !== undefined) into.set(path, typeof value === "string" ? value : JSON.stringify(value));
  return into;
}

function nameOf(value: unknown): string | null {
  const name = value && typeof value === "object" ? (value as { name?: unknown }).name : null;
  return typeof name === "string" ? name : null;
}
