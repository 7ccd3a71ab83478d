// Styles that scripts make need the page's nonce, or the policy drops them: terminals and editors make some.
// Imported first, before any script creates a style.
export const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
const create = document.createElement.bind(document);
document.createElement = ((name: string, options?: ElementCreationOptions): HTMLElement => {
  const made = create(name, options);
  if (name.toLowerCase() === "style") made.nonce = nonce;
  return made;
}) as typeof document.createElement;
