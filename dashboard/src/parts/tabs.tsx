// Tabs are links, so that each of them can be shared.
export function Tabs({ tabs, chosen }: { tabs: { name: string; href: string }[]; chosen: string }) {
  return (
    <nav class="tabs" aria-label="Views of this object">
      {tabs.map((each) => (
        <a key={each.name} href={each.href} aria-current={each.name === chosen ? "page" : undefined}>{each.name}</a>
      ))}
    </nav>
  );
}
