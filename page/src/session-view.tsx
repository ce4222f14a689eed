// One session: how it stands, what was said, what waits for an answer, and where to write.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Api } from "./api";
import { Composer } from "./composer";
import { forkPoint, type Item, type Pending, textOf, type ToolItem, type UserItem } from "./conversation";
import { ShareDialog } from "./dialogs";
import { promptField } from "./guard";
import { Icon } from "./icons";
import { Code, spelled, Words } from "./invisible";
import type { LinkState, SessionLink } from "./link";
import { NotFound } from "./not-found";
import { useObservable } from "./observable";
import { QuestionView } from "./question-view";
import { TimelineView } from "./timeline-view";
import { tokens } from "./time";
import { Transcript } from "./transcript";
import type { PlanEntry, SessionRow, TurnState } from "./wire";

interface Props {
  api: Api;
  link: SessionLink;
  row: SessionRow | null;
  isShared: boolean;
  isTimeline: boolean;
  draft: string;
  onDraft: (draft: string) => void;
  onForked: (row: SessionRow) => void;
  say: (words: string) => void;
}

export function SessionView({ api, link, row, isShared, isTimeline, draft, onDraft, onForked, say }: Props) {
  useObservable(link);
  const [isSharing, setSharing] = useState(false);
  const { conversation } = link;
  const title = conversation.title ?? row?.title ?? "Untitled session";
  const state = stateOf(link, row);

  useEffect(() => {
    document.title = `${state === "waiting" ? "● " : ""}${spelled(title)} · Fastness`;
  }, [title, state]);

  const written = useRef(draft);
  written.current = draft;
  /** Puts text behind what is written in the prompt, and the focus there. */
  const type = (text: string) => {
    onDraft(written.current === "" ? text : `${written.current}${text.length > 1 ? "\n" : ""}${text}`);
    promptField()?.focus();
  };
  const actions = useMemo(() => isShared ? null : {
    edit: (text: string) => type(text),
    fork: (item: Item) => {
      const isOver = conversation.turn.state === "idle" || conversation.items.some((other) => other.kind === "user" && other.seq > item.seq);
      if (item.kind !== "user" && !isOver) return say("Not forked: this turn still runs. Wait for its end, or cancel it.");
      const at = forkPoint(conversation.items, item, conversation.cursor.seq);
      api.fork(link.id, at).then(onForked, (error: Error) => say(`Not forked: ${error.message}`));
    },
    undo: (item: UserItem) => {
      link.rewind(item.seq - 1).then(
        () => onDraft(textOf(item.blocks.filter((block) => block.type === "text"))),
        (error: Error) => say(`Not undone: ${error.message}`),
      );
    },
  }, [link, isShared]);

  const dismiss = (pending: Pending) => {
    link.dismiss(pending);
    type(pending.text);
  };
  const question = link.questions[0];
  const call = question ? conversation.items.find((item): item is ToolItem => item.kind === "tool" && item.callId === question.callId) ?? null : null;
  const isLoading = link.state.kind === "loading" || (link.state.kind === "connecting" && conversation.cursor.seq === 0);
  if (link.state.kind === "gone") return <NotFound isShared={isShared} draft={draft} />;
  return (
    <main class="session" aria-label={spelled(title)}>
      <header class="bar">
        <a class="button quiet back" href="#/" aria-label="Back to the list"><Icon name="back" /></a>
        <div class="bar-title"><h1><Words text={title} /></h1><span class="meta" title={spelled(row?.cwd ?? "")}><Code text={row?.cwd ?? ""} /></span></div>
        <StateBadge state={state} />
        <UsageMeter link={link} />
        <div class="bar-acts">
          <a class={`button quiet ${isTimeline ? "on" : ""}`} href={isTimeline ? `#/s/${link.id}` : `#/s/${link.id}/timeline`} title="Timeline (t)" aria-label="Timeline"><Icon name="clock" /><span class="wide">Timeline</span></a>
          {isShared ? null : <button class="quiet" onClick={() => setSharing(true)} title="Share" aria-label="Share"><Icon name="share" /><span class="wide">Share</span></button>}
        </div>
        {isShared ? null : <Options link={link} say={say} />}
      </header>
      <LinkBanner state={link.state} queued={conversation.pending.filter((pending) => pending.state === "queued").length} onRetry={() => link.retry()} />
      {isShared ? <p class="banner info" role="note">You are watching. This link lets you see one session, and change nothing.</p> : null}
      {conversation.damagedAt !== null ? <p class="banner" role="alert">The journal is damaged from event {conversation.damagedAt} on. What came before is shown; nothing can be added.</p> : null}
      {isTimeline ? <TimelineView api={api} id={link.id} head={Math.max(conversation.cursor.seq, row?.head ?? 0)} onFork={isShared ? null : (at) => api.fork(link.id, at).then(onForked, (error: Error) => say(`Not forked: ${error.message}`))} /> : (
        <>
          <PlanView plan={conversation.plan} />
          {isLoading ? <p class="loading" role="status">Loading…</p> : (
            <Transcript
              items={conversation.items} base={conversation.base} pending={conversation.pending} isWorking={state === "running"} actions={actions}
              hasEarlier={link.hasEarlier} onEarlier={() => void link.readEarlier()} onDismiss={dismiss}
            >
              {conversation.items.length === 0 && conversation.pending.length === 0 ? <Empty isShared={isShared} /> : null}
            </Transcript>
          )}
          {question && !isShared ? <QuestionView question={question} link={link} call={call} others={link.questions.length - 1} onType={type} /> : null}
          {isShared && state === "waiting" ? <p class="banner info" role="status">The agent waits for an answer of its owner.</p> : null}
          {isShared ? null : <Composer api={api} link={link} draft={draft} onDraft={onDraft} />}
        </>
      )}
      {isSharing ? <ShareDialog api={api} id={link.id} onClose={() => setSharing(false)} /> : null}
    </main>
  );
}

/** A turn that runs may wait for a person: for us, or, as the list says, for somebody else. */
function stateOf(link: SessionLink, row: SessionRow | null): TurnState {
  const told = link.conversation.turn.state;
  if (told === "idle") return told;
  return link.questions.length > 0 || (row?.turn.state === "waiting" && link.state.kind === "live") ? "waiting" : "running";
}

function Empty({ isShared }: { isShared: boolean }) {
  return <p class="empty">{isShared ? "Nothing was said yet." : "Nothing here yet. Write a prompt below: Enter sends, Shift+Enter makes a new line."}</p>;
}

const WORDS = { running: "working", waiting: "needs you", idle: "idle" };

function StateBadge({ state }: { state: TurnState }) {
  return <span class={`badge state state-${state}`} role="status"><span class="dot" aria-hidden="true" />{WORDS[state]}</span>;
}

function UsageMeter({ link }: { link: SessionLink }) {
  const usage = link.conversation.usage;
  if (!usage || usage.size === 0) return null;
  const share = Math.min(1, usage.used / usage.size);
  const cost = usage.cost ? ` · $${usage.cost.amount.toFixed(usage.cost.amount < 1 ? 3 : 2)}` : "";
  return (
    <span class="usage" title="How full the model's window is, and what the session has cost">
      <meter min={0} max={1} value={share} aria-label={`Context ${Math.round(share * 100)} % full`} />
      <span>{tokens(usage.used)} / {tokens(usage.size)}{cost}</span>
    </span>
  );
}

/** The settings of a session that have choices: model and mode. */
function Options({ link, say }: { link: SessionLink; say: (words: string) => void }) {
  const offered = link.conversation.options.filter((option) => (option.options?.length ?? 0) > 1);
  if (offered.length === 0) return null;
  return (
    <div class="settings" role="group" aria-label="Settings of the session">
      {offered.map((option) => (
        <label key={option.id}><span class="option-name">{option.name}</span><select
          class="option" aria-label={option.name} title={option.name} disabled={!link.isLive}
          onChange={(event) => void link.setOption(option.id, event.currentTarget.value).catch((error: Error) => say(error.message))}
        >
          {option.options?.map((choice) => <option value={choice.value} selected={choice.value === option.currentValue}>{choice.name}</option>)}
        </select></label>
      ))}
    </div>
  );
}

function LinkBanner({ state, queued, onRetry }: { state: LinkState; queued: number; onRetry: () => void }) {
  const [now, setNow] = useState(Date.now());
  const isWaiting = state.kind === "waiting";
  useEffect(() => {
    if (!isWaiting) return;
    setNow(Date.now());
    const timer = setInterval(() => setNow(Date.now()), 500);
    return () => clearInterval(timer);
  }, [isWaiting]);
  if (state.kind !== "waiting") return null;
  const seconds = Math.max(0, Math.ceil((state.until - now) / 1000));
  return (
    <p class="banner" role="status" data-link="waiting">
      <span>{state.cause}. {seconds > 0 ? "Reconnecting by itself." : "Reconnecting now."} What is shown is stored.{queued > 0 ? ` If the server itself stopped, ${queued === 1 ? "the queued prompt does" : `the ${queued} queued prompts do`} not run; you will see it here.` : ""}</span>
      <button class="quiet" onClick={onRetry}>Now</button>
    </p>
  );
}

const PLAN_SIGNS: Record<string, string> = { completed: "✓", in_progress: "▸", pending: "○" };

function PlanView({ plan }: { plan: PlanEntry[] }) {
  const [isOpen, setOpen] = useState(false);
  if (plan.length === 0) return null;
  const done = plan.filter((entry) => entry.status === "completed").length;
  const current = plan.find((entry) => entry.status === "in_progress") ?? plan.find((entry) => entry.status !== "completed");
  return (
    <section class="plan" aria-label={`Plan, ${done} of ${plan.length} done`}>
      <button class="tool-head" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name={isOpen ? "down" : "right"} /><span class="tool-name">plan {done}/{plan.length}</span>
        {isOpen ? null : <span class="tool-title"><Words text={current?.content ?? "all done"} /></span>}
      </button>
      {isOpen ? <ol>{plan.map((entry) => <li class={entry.status}><span aria-hidden="true">{PLAN_SIGNS[entry.status] ?? "○"}</span> <Words text={entry.content} /><span class="hidden"> ({entry.status.replace("_", " ")})</span></li>)}</ol> : null}
    </section>
  );
}
