// The few signs of the page, drawn in the colour of the text around them.

const PATHS = {
  right: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  back: "M10 3L5 8l5 5",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  send: "M8 13V3M4 7l4-4 4 4",
  stop: "M4.5 4.5h7v7h-7zM6.5 6.5h3v3h-3zM8 7v2",
  fork: "M5 3v10M5 9c4 0 6-1 6-5M11 4l0-1",
  undo: "M4 4v4h4M4 8c1-3 4-4 6-3s3 4 1 7",
  clock: "M8 4v4l3 2M8 2a6 6 0 100 12A6 6 0 008 2z",
  share: "M8 2v8M5 5l3-3 3 3M3 9v4h10V9",
  server: "M3 3h10v4H3zM3 9h10v4H3zM5 5h1M5 11h1",
  theme: "M8 2a6 6 0 100 12V2z",
  help: "M6 6a2 2 0 114 0c0 1.5-2 1.5-2 3M8 12v.5",
  search: "M7 3a4 4 0 100 8 4 4 0 000-8zM10 10l3 3",
  trash: "M3 5h10M6 5V3h4v2M5 5l.5 8h5l.5-8",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
    </svg>
  );
}
