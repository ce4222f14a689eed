// The server: who is connected, what waits for whom, and how the numbers moved while this page watched.

import { useEffect, useState } from "preact/hooks";
import type { Api, ServerView as View } from "./api";
import { Icon } from "./icons";
import { bytes, duration } from "./time";

const EVERY_MS = 2_000;
/** Samples kept: four minutes. */
const SAMPLES = 120;
/** Samples that a chart has room for at least; it grows with them. */
const SAMPLES_DRAWN = 20;

export function ServerPage({ api }: { api: Api }) {
  const [views, setViews] = useState<View[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let timer = 0;
    let isWanted = true;
    const look = async () => {
      try {
        const next = await api.server();
        if (!isWanted) return;
        setFailure(null);
        setViews((known) => [...known, next].slice(-SAMPLES));
      } catch (error) {
        if (isWanted) setFailure(error instanceof Error ? error.message : "The server does not tell");
      }
      if (isWanted) timer = window.setTimeout(look, EVERY_MS);
    };
    document.title = "Server · Fastness";
    void look();
    return () => {
      isWanted = false;
      clearTimeout(timer);
    };
  }, [api]);
  const view = views.at(-1);
  return (
    <main class="session server" aria-label="Server">
      <header class="bar">
        <a class="button quiet back" href="#/" aria-label="Back to the list"><Icon name="back" /></a>
        <div class="bar-title"><h1>Server</h1>{view ? <span class="meta">{view.version} · up {duration(view.uptimeSecs)}</span> : null}</div>
      </header>
      {failure ? <p class="banner" role="status">{failure}</p> : null}
      {view ? (
        <div class="scroller" tabIndex={0} role="region" aria-label="Numbers and connections">
          <div class="charts">
            <Chart name="Connections" values={views.map((one) => one.connectionsTotal)} />
            <Chart name="Turns running" values={views.map((one) => one.sessions.running)} detail={`${view.sessions.waiting} waiting for a person, ${view.sessions.loaded} sessions in memory`} />
            <Chart name="Events per second" values={rates(views, (one) => one.eventsTotal)} show={round} detail={`${view.eventsTotal.toLocaleString()} since the start, in ${view.turnsTotal.toLocaleString()} turns`} />
            <Chart name="Waiting to be read" values={views.map((one) => one.queuedBytes)} show={bytes} detail="queued for all connections" />
            <Chart name="Memory" values={views.map((one) => one.memoryBytes)} show={bytes} />
            <Chart name="Processor" values={rates(views, (one) => one.cpuSecs * 100)} show={(value) => `${round(value)} %`} detail="of one core" />
          </div>
          <h2>Connections</h2>
          <Connections view={view} />
          <p class="meta">{view.modelCallsTotal.toLocaleString()} calls of models and {view.refusalsTotal.toLocaleString()} refused requests since the start.</p>
        </div>
      ) : null}
    </main>
  );
}

function Connections({ view }: { view: View }) {
  return (
    <div class="table" tabIndex={0} role="region" aria-label="Connections">
      <table>
        <thead><tr><th scope="col">Who</th><th scope="col">How</th><th scope="col" class="to-right">Sessions</th><th scope="col" class="to-right">Queued</th><th scope="col" class="to-right">For</th></tr></thead>
        <tbody>
          {view.connections.map((connection) => (
            <tr key={connection.id}>
              <td>{connection.principal}</td><td>{connection.transport}</td><td class="to-right">{connection.sessions}</td>
              <td class="to-right">{bytes(connection.queuedBytes)}</td><td class="to-right">{duration(connection.sinceSecs)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {view.connections.length < view.connectionsTotal ? <p class="meta">and {(view.connectionsTotal - view.connections.length).toLocaleString()} more</p> : null}
    </div>
  );
}

/** How fast a number that only grows has grown between samples, per second. */
export function rates(views: View[], total: (view: View) => number): number[] {
  return views.slice(1).map((view, index) => {
    const before = views[index] as View;
    const seconds = view.uptimeSecs - before.uptimeSecs;
    return seconds > 0 ? Math.max(0, (total(view) - total(before)) / seconds) : 0;
  });
}

function round(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString() : value.toFixed(1);
}

function Chart({ name, values, detail, show = String }: { name: string; values: number[]; detail?: string; show?: (value: number) => string }) {
  const last = values.at(-1) ?? 0;
  const most = Math.max(1, ...values);
  const room = Math.max(SAMPLES_DRAWN, values.length);
  const points = values.map((value, index) => `${((index + room - values.length) / (room - 1)) * 240},${38 - (value / most) * 36}`);
  return (
    <figure class="chart">
      <figcaption><span>{name}</span><strong>{show(last)}</strong></figcaption>
      <svg viewBox="0 0 240 40" preserveAspectRatio="none" role="img" aria-label={`${name}: now ${show(last)}, at most ${show(Math.max(...values, 0))}`}>
        {points.length > 1 ? <polygon points={`${points[0]?.split(",")[0]},40 ${points.join(" ")} 240,40`} class="area" /> : null}
        <polyline points={points.join(" ")} class="line" />
      </svg>
      <span class="meta">{detail ?? "\u00a0"}</span>
    </figure>
  );
}
