// The server: who is connected, what waits for whom, and how the numbers moved while this page watched.

import { useEffect, useState } from "preact/hooks";
import type { Api, ServerView as View } from "./api";
import { Icon } from "./icons";
import { bytes, duration } from "./time";

const EVERY_MS = 2_000;
/** Samples kept: four minutes. */
const SAMPLES = 120;

interface Sample {
  connections: number;
  running: number;
  memory: number;
  queued: number;
  turns: number;
}

export function ServerPage({ api }: { api: Api }) {
  const [view, setView] = useState<View | null>(null);
  const [samples, setSamples] = useState<Sample[]>([]);
  const [failure, setFailure] = useState<string | null>(null);
  useEffect(() => {
    let timer = 0;
    let isWanted = true;
    const look = async () => {
      try {
        const next = await api.server();
        if (!isWanted) return;
        setView(next);
        setFailure(null);
        setSamples((known) => [...known, sample(next)].slice(-SAMPLES));
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
            <Chart name="Connections" values={samples.map((s) => s.connections)} />
            <Chart name="Turns running" values={samples.map((s) => s.running)} detail={`${view.sessions.waiting} waiting for a person, ${view.sessions.loaded} sessions in memory`} />
            <Chart name="Turns ended" values={rates(samples.map((s) => s.turns))} now={String(view.turnsTotal)} detail="per sample" />
            <Chart name="Waiting to be read" values={samples.map((s) => s.queued)} show={bytes} detail="bytes queued for all connections" />
            <Chart name="Memory" values={samples.map((s) => s.memory)} show={bytes} />
          </div>
          <h2>Connections</h2>
          <div class="table" tabIndex={0} role="region" aria-label="Connections">
            <table>
              <thead><tr><th scope="col">Who</th><th scope="col">How</th><th scope="col" class="to-right">Sessions</th><th scope="col" class="to-right">Queued</th><th scope="col" class="to-right">For</th></tr></thead>
              <tbody>
                {view.connections.map((connection) => (
                  <tr><td>{connection.principal}</td><td>{connection.transport}</td><td class="to-right">{connection.sessions}</td><td class="to-right">{bytes(connection.queuedBytes)}</td><td class="to-right">{duration(connection.sinceSecs)}</td></tr>
                ))}
              </tbody>
            </table>
          </div>
        </div>
      ) : null}
    </main>
  );
}

function sample(view: View): Sample {
  return {
    connections: view.connections.length,
    running: view.sessions.running,
    memory: view.memoryBytes,
    queued: view.connections.reduce((sum, connection) => sum + connection.queuedBytes, 0),
    turns: view.turnsTotal,
  };
}

function rates(totals: number[]): number[] {
  return totals.map((total, index) => Math.max(0, total - (totals[index - 1] ?? total)));
}

function Chart({ name, values, detail, now, show = String }: { name: string; values: number[]; detail?: string; now?: string; show?: (value: number) => string }) {
  const last = values.at(-1) ?? 0;
  const most = Math.max(1, ...values);
  const points = values.map((value, index) => `${((index + SAMPLES - values.length) / (SAMPLES - 1)) * 240},${38 - (value / most) * 36}`);
  return (
    <figure class="chart">
      <figcaption><span>{name}</span><strong>{now ?? show(last)}</strong></figcaption>
      <svg viewBox="0 0 240 40" preserveAspectRatio="none" role="img" aria-label={`${name}: now ${show(last)}, at most ${show(Math.max(...values, 0))}`}>
        {points.length > 1 ? <polygon points={`${points[0]?.split(",")[0]},40 ${points.join(" ")} 240,40`} class="area" /> : null}
        <polyline points={points.join(" ")} class="line" />
      </svg>
      <span class="meta">{detail ?? " "}</span>
    </figure>
  );
}
