// The mark of the product. Icons come from Lucide, each imported where it is used.
export function Logo() {
  return (
    <svg viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <rect x="1" y="1" width="22" height="22" rx="6" fill="var(--accent-solid)" />
      <path d="M8.2 20 11 4h2l2.800 16h-2.300l-.35-2.600h-2.300L10.500 20Z" fill="#fff" />
      <path d="M11.600 7h.8v2h-.8zm-.15 4h1.100v2.500h-1.100z" fill="var(--accent-solid)" />
    </svg>
  );
}
