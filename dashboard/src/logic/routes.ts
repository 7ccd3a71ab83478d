// Links are the state: everything a view shows is in the fragment, which no access log ever sees.

export interface Route {
  view: string;
  parts: string[];
  query: URLSearchParams;
}

/** The route of a fragment. */
export function parse(fragment: string): Route {
  const [path = "", query = ""] = fragment.replace(/^#?\/?/, "").split("?", 2);
  const [view = "", ...parts] = path.split("/").map(decoded);
  return { view: view || "planet", parts: parts.filter((each) => each !== ""), query: new URLSearchParams(query) };
}

/** The link to a view. */
export function link(view: string, parts: string[] = [], query: Record<string, string> = {}): string {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const chosen = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ""));
  return `#/${path}${chosen.size ? `?${chosen}` : ""}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
