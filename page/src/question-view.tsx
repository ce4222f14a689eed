// What waits for a person: a permission with its options, or a form. A printable key alone never answers, and what was
// meant for something else does not either: see `guard.ts`.

import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ToolItem } from "./conversation";
import { isIme, isNowhere, isWriting, promptField, useGuard } from "./guard";
import { Words } from "./invisible";
import type { FieldSchema, Question, SessionLink } from "./link";
import { ToolContentView, ToolInput } from "./tool-view";
import type { Json, PermissionOption } from "./wire";

interface Props {
  question: Question;
  link: SessionLink;
  call: ToolItem | null;
  others: number;
  /** Puts text into the prompt, and the focus with it. */
  onType: (text: string) => void;
}

export function QuestionView({ question, ...rest }: Props) {
  return question.kind === "permission"
    ? <PermissionView key={question.id} question={question} {...rest} />
    : <FormView key={question.id} question={question} {...rest} />;
}

/** Takes the focus from a prompt in which nothing is written, or, for a form, from nowhere; gives it back afterwards. */
function useFocus(section: RefObject<HTMLElement | null>, isForm: boolean) {
  useLayoutEffect(() => {
    const field = promptField();
    const isFromPrompt = field !== null && document.activeElement === field && field.value === "";
    if (!isFromPrompt && !(isForm && document.activeElement === document.body)) return;
    // Never to a button: a key that is already on its way would press it.
    section.current?.focus();
    if (!isFromPrompt) return;
    return () => {
      if (document.activeElement === document.body || document.activeElement === null || section.current?.contains(document.activeElement)) field.focus();
    };
  }, []);
}

type Permission = Extract<Question, { kind: "permission" }>;

/** The key that chooses an option: y and n for what is meant most often, digits for the rest. */
export function keyOf(option: PermissionOption, index: number, options: PermissionOption[]): string {
  const first = (kind: string) => options.findIndex((other) => other.kind === kind) === index;
  if (option.kind === "allow_once" && first("allow_once")) return "y";
  if (option.kind === "reject_once" && first("reject_once")) return "n";
  if (option.kind === "allow_always" && first("allow_always")) return "a";
  return String(index + 1);
}

function PermissionView({ question, link, call, others, onType }: Props & { question: Permission }) {
  const [reason, setReason] = useState("");
  const [chosen, setChosen] = useState<number | null>(null);
  const section = useRef<HTMLElement>(null);
  const buttons = useRef<HTMLDivElement>(null);
  /** What was typed since the request appeared, was clicked, or Esc was pressed: a letter chooses only if it is the first. */
  const typed = useRef("");
  const guard = useGuard(buttons);
  useFocus(section, false);
  const { options } = question;
  const answer = (option: PermissionOption) => link.answerPermission(question, option.optionId, reason);

  /** A key on the request itself, or on nothing in particular. */
  const pressed = (event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isIme(event)) return;
    const isHere = event.target === section.current;
    if (event.key === "Escape") {
      typed.current = "";
      setChosen(null);
      if (!isHere) return;
      if (chosen === null) promptField()?.focus();
    } else if (isHere && /^Arrow/.test(event.key)) {
      const step = /Up|Left/.test(event.key) ? -1 : 1;
      setChosen(chosen === null ? (step > 0 ? 0 : options.length - 1) : (chosen + step + options.length) % options.length);
    } else if (isHere && event.key === "Enter") {
      const option = chosen === null ? undefined : options[chosen];
      if (option && !event.repeat && !isWriting() && guard.isSettled()) answer(option);
    } else if (event.key.length === 1) {
      if (!write(event, isHere)) return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  /** A printable key: chooses an option, or is text. Says whether it was taken. */
  const write = (event: KeyboardEvent, isHere: boolean): boolean => {
    const before = typed.current;
    typed.current += event.key;
    const index = options.findIndex((option, at) => keyOf(option, at, options) === event.key);
    if (before === "" && index >= 0 && !event.repeat && !isWriting() && guard.isSettled()) {
      setChosen(index);
      section.current?.focus();
      return true;
    }
    setChosen(null);
    if (!isHere) return false;
    typed.current = "";
    onType(before + event.key);
    return true;
  };
  useEffect(() => {
    const elsewhere = (event: KeyboardEvent) => {
      if (isNowhere(event.target) && !document.querySelector("dialog[open]")) pressed(event);
    };
    document.addEventListener("keydown", elsewhere);
    return () => document.removeEventListener("keydown", elsewhere);
  });

  const proposed = question.content.length > 0 ? question.content : call?.proposed ?? [];
  const input = question.agent?.input ?? call?.input ?? null;
  const tool = question.agent?.tool ?? call?.name;
  const canReject = options.some((option) => option.kind.startsWith("reject"));
  return (
    <section
      class={`question ${guard.isReady ? "" : "settling"}`} role="group" aria-labelledby="question-title" aria-describedby="question-keys" tabIndex={-1} ref={section}
      onPointerDown={() => { typed.current = ""; }} onKeyDown={(event) => { if (event.target === section.current) pressed(event); }}
    >
      <header>
        <h2 id="question-title">{question.isQuestion ? "The agent asks" : question.agent ? <><Words text={question.agent.name} /> asks for permission</> : "Permission needed"}</h2>
        {others > 0 ? <span class="meta">{others} more</span> : null}
      </header>
      <p class="question-what">{!question.isQuestion && tool ? <span class="tool-name"><Words text={tool} /></span> : null}<Words text={question.title} /></p>
      {question.isQuestion ? null : (
        <div class="question-body">
          {proposed.some((content) => content.type === "diff") ? null : <ToolInput input={input} />}
          {proposed.map((content) => <ToolContentView content={content} />)}
        </div>
      )}
      <div class="options" ref={buttons}>
        {options.map((option, index) => (
          <button
            class={`${option.kind.startsWith("allow") ? (index === 0 ? "primary" : "") : "danger"} ${index === chosen ? "chosen" : ""}`}
            onPointerDown={guard.press} onKeyDown={guard.press} onClick={guard.click(() => answer(option))}
          >
            <Words text={option.name} /> <kbd aria-hidden="true">{keyOf(option, index, options)}</kbd>
          </button>
        ))}
        {canReject && !question.isQuestion ? (
          <input
            class="reason" value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="Why, for the agent (optional)" aria-label="Reason, told to the agent" maxLength={1000}
            onKeyDown={(event) => { if (event.key === "Escape" && !isIme(event)) leave(event, section.current); }}
          />
        ) : null}
      </div>
      <p class="keys-hint meta" id="question-keys">Arrow keys or a letter choose, Enter confirms.</p>
      <p class="hidden" role="status">{chosen === null ? "" : `${options[chosen]?.name} is chosen. Enter confirms.`}</p>
    </section>
  );
}

/** Esc in a field only leaves it. */
function leave(event: KeyboardEvent, to: HTMLElement | null) {
  event.preventDefault();
  event.stopPropagation();
  to?.focus();
}

type Form = Extract<Question, { kind: "form" }>;

function FormView({ question, link, others, onType }: Props & { question: Form }) {
  const section = useRef<HTMLElement>(null);
  const buttons = useRef<HTMLDivElement>(null);
  const guard = useGuard(buttons);
  useFocus(section, true);
  const fields = Object.entries(question.schema.properties);
  useEffect(() => {
    // Who was about to write something else has done so by now; then the focus went back to the prompt.
    if (guard.isReady && document.activeElement === section.current) section.current?.querySelector<HTMLElement>("input")?.focus();
  }, [guard.isReady]);
  const values = (form: HTMLFormElement) => {
    const data = new FormData(form);
    const content: Record<string, Json> = {};
    for (const [name, field] of fields) {
      const value = read(field, name, data);
      if (value !== undefined) content[name] = value;
    }
    return content;
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (guard.isSettled()) link.answerForm(question, values(event.currentTarget as HTMLFormElement));
  };
  const pressed = (event: KeyboardEvent) => {
    if (isIme(event)) {
      if (event.key === "Enter") event.preventDefault();
      return;
    }
    if (event.key === "Escape") leave(event, event.target === section.current ? promptField() : section.current);
    else if (event.key === "Enter" && event.target instanceof HTMLInputElement) {
      // Enter sends what was filled in, and only that.
      const isFilled = event.target.form !== null && [...new FormData(event.target.form).values()].some((value) => value !== "");
      if (event.repeat || !isFilled || !guard.isSettled()) event.preventDefault();
    } else if (event.target === section.current && event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      event.stopPropagation();
      onType(event.key);
    }
  };
  return (
    <section class={`question ${guard.isReady ? "" : "settling"}`} role="group" aria-labelledby="question-title" aria-describedby="question-what" tabIndex={-1} ref={section} onKeyDown={pressed}>
      <header>
        <h2 id="question-title">The agent asks</h2>
        {others > 0 ? <span class="meta">{others} more</span> : null}
      </header>
      <p class="question-what" id="question-what"><Words text={question.message} /></p>
      <form onSubmit={submit}>
        {fields.map(([name, field]) => <Field name={name} field={field} isRequired={question.schema.required?.includes(name) ?? false} />)}
        <div class="options" ref={buttons}>
          <button class="primary" type="submit" onPointerDown={guard.press} onKeyDown={guard.press} onClick={(event) => { let isMeant = false; guard.click(() => { isMeant = true; })(event); if (!isMeant) event.preventDefault(); }}>Answer</button>
          <button type="button" onPointerDown={guard.press} onKeyDown={guard.press} onClick={guard.click(() => link.answerForm(question, null))}>Decline</button>
        </div>
      </form>
    </section>
  );
}

function choices(field: FieldSchema): { value: string; name: string }[] | null {
  const titled = field.oneOf ?? field.items?.anyOf;
  if (titled) return titled.map((choice) => ({ value: choice.const, name: choice.title ?? choice.const }));
  const plain = field.enum ?? field.items?.enum;
  return plain ? plain.map((value) => ({ value, name: value })) : null;
}

function Field({ name, field, isRequired }: { name: string; field: FieldSchema; isRequired: boolean }) {
  const title = field.title ?? name;
  const offered = choices(field);
  if (offered) {
    const type = field.type === "array" ? "checkbox" : "radio";
    return (
      <fieldset>
        <legend>{title}</legend>
        {field.description ? <p class="meta">{field.description}</p> : null}
        {offered.map((choice) => <label class="choice"><input type={type} name={name} value={choice.value} required={isRequired && type === "radio"} /> {choice.name}</label>)}
      </fieldset>
    );
  }
  if (field.type === "boolean") return <label class="choice"><input type="checkbox" name={name} defaultChecked={field.default === true} /> {title}</label>;
  const isNumber = field.type === "number" || field.type === "integer";
  return (
    <label class="field">
      <span>{title}</span>
      {isNumber
        ? <input name={name} type="number" step={field.type === "number" ? "any" : "1"} required={isRequired} min={field.minimum} max={field.maximum} />
        : <input name={name} type="text" required={isRequired} maxLength={field.maxLength} defaultValue={typeof field.default === "string" ? field.default : ""} />}
      {field.description ? <span class="meta">{field.description}</span> : null}
    </label>
  );
}

function read(field: FieldSchema, name: string, data: FormData): Json | undefined {
  if (field.type === "array") return data.getAll(name).map(String);
  if (field.type === "boolean") return data.get(name) !== null;
  const value = data.get(name);
  if (value === null || value === "") return undefined;
  return field.type === "number" || field.type === "integer" ? Number(value) : String(value);
}
