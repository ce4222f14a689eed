//! `fastness ask`: one prompt, its answer on stdout as it comes, and an exit code that says how it went.
//!
//! [`run`] works over any [`Client`], so that asking in-process and through a server are the same.
//! Exit codes: 0 when the model gave a whole answer; 1 when the turn failed, was cancelled, timed out, was cut by
//! a limit or ended without an answer, or when the answer could not be written; 3 when the turn called tools
//! and every single call was denied; 130 after Ctrl-C.

mod input;
mod keyboard;
mod lines;
mod messages;
mod outcome;
mod permits;
pub(crate) mod questions;
mod screen;
mod tally;

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use client::{
    Ask, Attached, Client, ClientError, PromptEnd, PromptEvent, PromptStream, SessionSummary,
    ToolCall, Update,
};
use domain::SessionId;
use domain::event::PermissionOptionKind;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};
use wire::acp::TurnState;
use wire::rpc::code;

use self::keyboard::Keyboard;
use self::outcome::{Facts, Outcome, Verdict, verdict};
use self::permits::Permits;
use self::screen::{Screen, Sinks};
use self::tally::Tally;
use crate::args::AskArgs;
use crate::render::{Exit, Failure, Palette, unwritten};
use crate::sessions::find;
use crate::settings::Settings;

/// How long a cancelled turn gets to say goodbye before we leave without it.
const GOODBYE: Duration = Duration::from_secs(2);
/// Pages of the session list that are looked through for one session: beyond, `--cwd` must help.
const LIST_PAGES_MAX: usize = 100;
/// Sessions with the same beginning that are looked for: enough to name some of them.
const AMBIGUOUS_MAX: usize = 6;

/// Asks, prints, and closes the connection. `note` is a line about who answers, for a terminal.
///
/// # Errors
/// If there is no good answer; [`crate::render::report`] prints it and knows the exit code.
pub(crate) async fn run(
    client: Client,
    args: &AskArgs,
    settings: &Settings,
    note: Option<&str>,
) -> anyhow::Result<ExitCode> {
    let prompt = input::prompt(args, settings.limits.message_bytes_max)?;
    let palette = Palette::stderr(&settings.environment);
    let text_bytes_max = settings.limits.streamed_message_bytes_max;
    let mut screen = Screen::new(
        Sinks::standard(args.json || args.stream_json),
        palette,
        text_bytes_max,
    );
    screen.note(note.unwrap_or_default())?;
    let outcome = Asking::begin(&client, args, settings, &prompt).await;
    let outcome = match outcome {
        Ok(mut asking) => asking.tell(&mut screen).await,
        Err(error) => Err(not_begun(args, error)),
    };
    client.close().await;
    outcome.map(ExitCode::from)
}

/// Tells a program that reads JSON why there is no answer; gives `error` for stderr.
pub(crate) fn not_begun(args: &AskArgs, error: anyhow::Error) -> anyhow::Error {
    if let Some(object) = outcome::not_begun(args, &error) {
        // What goes wrong here is less than what went wrong before.
        let _ = writeln!(crate::render::stdout(), "{object}");
    }
    error
}

/// A prompt that is being answered.
struct Asking<'a> {
    client: &'a Client,
    args: &'a AskArgs,
    session: SessionId,
    stream: PromptStream,
    interrupts: Signal,
    deadline: Option<Instant>,
    tally: Tally,
    permits: Permits,
    keyboard: Option<Keyboard>,
    /// The question that a person is looking at; nothing else is read meanwhile.
    question: Option<Ask>,
    stopping: Option<Stopping>,
    /// Why the output could not be written.
    unwritten: Option<io::Error>,
}

/// We asked the turn to end.
#[derive(Clone, Copy)]
struct Stopping {
    why: Stop,
    until: Instant,
}

/// Why we asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Timeout,
    Interrupt,
    /// Whoever read our output has gone.
    OutputClosed,
}

/// What to react to next.
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time, and most are events"
)]
enum Step {
    Event(Option<Result<PromptEvent, ClientError>>),
    Line(Option<String>),
    Withdrawn,
    /// Nothing came for a moment.
    Tick,
    Time,
    Interrupt,
}

impl<'a> Asking<'a> {
    async fn begin(
        client: &'a Client,
        args: &'a AskArgs,
        settings: &Settings,
        prompt: &str,
    ) -> anyhow::Result<Self> {
        let deadline = args.timeout.map(|timeout| Instant::now() + timeout);
        let mut interrupts = signal(SignalKind::interrupt()).context("cannot hear Ctrl-C")?;
        let starting = async {
            let attached = attach(client, args.session.as_deref(), settings).await?;
            let stream = client.prompt_once(attached.session, prompt).await?;
            anyhow::Ok((attached.session, stream))
        };
        let (session, stream) = tokio::select! {
            started = starting => started?,
            () = at(deadline) => return Err(timed_out(args).into()),
            _ = interrupts.recv() => return Err(interrupted().into()),
        };
        let is_person_here = io::stdin().is_terminal() && io::stderr().is_terminal();
        Ok(Self {
            client,
            args,
            session,
            stream,
            interrupts,
            deadline,
            tally: Tally::default(),
            permits: Permits::new(&args.allow, &settings.cwd),
            keyboard: is_person_here.then(Keyboard::new),
            question: None,
            stopping: None,
            unwritten: None,
        })
    }

    /// Prints what comes of the turn.
    async fn tell(&mut self, screen: &mut Screen) -> anyhow::Result<Exit> {
        let session = json!({"type": "session", "sessionId": self.session});
        if self.args.stream_json
            && let Err(error) = screen.object(&session)
        {
            self.give_up(error).await;
        }
        let ended = self.follow(screen).await;
        self.conclude(ended, screen)
    }

    /// Prints what comes until the turn ends, or until we no longer wait for it.
    async fn follow(&mut self, screen: &mut Screen) -> Result<Option<PromptEnd>, ClientError> {
        loop {
            let done = match self.step().await {
                Step::Event(None) => return Ok(None),
                Step::Event(Some(Ok(PromptEvent::Ended(end)))) => return Ok(Some(end)),
                Step::Event(Some(Ok(PromptEvent::Ask(ask)))) => self.asked(ask, screen),
                Step::Event(Some(Ok(PromptEvent::Update(update)))) => self.show(update, screen),
                // After a cancel that we wanted, how the connection ends does not matter.
                Step::Event(Some(Err(_))) if self.stopping.is_some() => return Ok(None),
                Step::Event(Some(Err(error))) => return Err(error),
                Step::Line(line) => self.answered(line.as_deref(), screen),
                Step::Withdrawn => {
                    self.question = None;
                    screen.note("answered elsewhere")
                }
                Step::Tick => screen.spin(),
                Step::Time | Step::Interrupt if self.stopping.is_some() => return Ok(None),
                Step::Time => self.stop(Stop::Timeout).await,
                Step::Interrupt => self.stop(Stop::Interrupt).await,
            };
            if let Err(error) = done {
                tracing::debug!(%error, "stdout or stderr was closed");
                self.give_up(error).await;
            }
        }
    }

    /// Ends the turn, for its answer cannot be written.
    async fn give_up(&mut self, error: io::Error) {
        self.unwritten.get_or_insert(error);
        self.stop(Stop::OutputClosed).await.ok();
    }

    /// Waits for the next thing to react to. Cancel safe, as all it waits for is.
    async fn step(&mut self) -> Step {
        let wake = self
            .stopping
            .map(|stopping| stopping.until)
            .or(self.deadline);
        let is_asking = self.question.is_some();
        tokio::select! {
            event = self.stream.next(), if !is_asking => Step::Event(event),
            line = line(&mut self.keyboard), if is_asking => Step::Line(line),
            () = withdrawn(&mut self.question) => Step::Withdrawn,
            () = sleep(screen::SPIN_EVERY), if !is_asking => Step::Tick,
            () = at(wake) => Step::Time,
            _ = self.interrupts.recv() => Step::Interrupt,
        }
    }

    fn show(&mut self, update: Update, screen: &mut Screen) -> io::Result<()> {
        if let (true, Some(line)) = (self.args.stream_json, lines::of(&update)) {
            screen.object(&line)?;
        }
        match update {
            Update::Text { greeting: true, .. } | Update::Turn(_) | Update::Other { .. } => Ok(()),
            Update::Notice { text } => screen.notice(&text),
            Update::Text { text, message, .. } => screen.text(message.as_deref(), &text),
            Update::Thought { text } => screen.thought(&text),
            Update::ToolCall(call) => {
                screen.end_message();
                screen.tool_started(&call)?;
                self.tally.started(call);
                Ok(())
            }
            Update::ToolUpdate(change) => match self.tally.changed(change) {
                Some((call, ending)) => screen.tool_ended(&call, ending),
                None => Ok(()),
            },
        }
    }

    /// Answers by the rules; without one that permits, a person is asked, else it is denied.
    fn asked(&mut self, mut ask: Ask, screen: &mut Screen) -> io::Result<()> {
        let call = self.tally.whole(&ask.call);
        if questions::is_question(&call) {
            return self.asked_to_answer(ask, call, screen);
        }
        let asking = asking_rule(&ask);
        if asking.is_none() && self.permits.cover(&call) {
            allow(ask);
        } else if let (Some(keyboard), None) = (&mut self.keyboard, self.stopping) {
            screen.question(&call)?;
            keyboard.prompted();
            ask.call = call;
            self.question = Some(ask);
        } else if let Some(rule) = asking {
            deny_because(ask, &unasked(&rule));
        } else {
            let rule = self.permits.rule_for(&call);
            self.tally.denied_by_rules(&call, rule.as_deref());
            deny_because(ask, &unpermitted(rule.as_deref()));
        }
        Ok(())
    }

    /// Has the person at the terminal answer; nobody answers in their place.
    fn asked_to_answer(
        &mut self,
        mut ask: Ask,
        call: ToolCall,
        screen: &mut Screen,
    ) -> io::Result<()> {
        ask.call = call;
        if let (Some(keyboard), None) = (&mut self.keyboard, self.stopping) {
            let answers = questions::answers(&ask.options);
            screen.choice(&ask.call, answers.map(|option| option.name.as_str()))?;
            keyboard.prompted();
            self.question = Some(ask);
            return Ok(());
        }
        screen.notice("the agent asked a question, and there is no terminal to answer it at")?;
        self.tally.denied_by_person(&ask.call);
        deny_because(ask, "The user cannot be asked: there is no terminal.");
        Ok(())
    }

    fn answered(&mut self, line: Option<&str>, screen: &mut Screen) -> io::Result<()> {
        let Some(ask) = self.question.take() else {
            return Ok(());
        };
        screen.answered();
        if questions::is_question(&ask.call) {
            let chosen = questions::chosen(line.unwrap_or_default(), &ask.options);
            match chosen.map(str::to_owned) {
                Some(option) => ask.answer(&option),
                None => {
                    self.tally.denied_by_person(&ask.call);
                    deny(ask);
                }
            }
            return Ok(());
        }
        let answer = line.unwrap_or_default().trim().to_ascii_lowercase();
        if matches!(answer.as_str(), "y" | "yes") {
            allow(ask);
        } else {
            self.tally.denied_by_person(&ask.call);
            deny(ask);
        }
        Ok(())
    }

    async fn stop(&mut self, why: Stop) -> io::Result<()> {
        let until = Instant::now() + GOODBYE;
        self.stopping = Some(Stopping { why, until });
        self.question = None;
        // If the cancel cannot be sent, the goodbye time still ends the wait.
        let _ = tokio::time::timeout_at(until, self.client.cancel(self.session)).await;
        Ok(())
    }

    /// Prints the end, and says how the program ends.
    fn conclude(
        &mut self,
        ended: Result<Option<PromptEnd>, ClientError>,
        screen: &mut Screen,
    ) -> anyhow::Result<Exit> {
        if let Err(error) = screen.finish() {
            self.unwritten.get_or_insert(error);
        }
        let (end, broken) = match ended {
            Ok(end) => (end, None),
            Err(error) => (None, Some(outcome::failed(error))),
        };
        let stop = self.stopping.map(|stopping| stopping.why);
        let stop_reason = end.as_ref().map_or("cancelled", |end| &end.stop_reason);
        let facts = Facts {
            is_all_denied: self.tally.is_all_denied(),
            has_text: screen.has_text(),
        };
        let failure = broken.or_else(|| match verdict(stop, stop_reason, facts) {
            Verdict::Good | Verdict::Unheard => None,
            Verdict::Cut => Some(outcome::cut(stop_reason)),
            Verdict::Empty => Some(outcome::empty(self.tally.count())),
            Verdict::TimedOut => Some(Outcome::new("timeout", timed_out(self.args))),
            Verdict::Interrupted => Some(Outcome::new("interrupted", interrupted())),
            Verdict::AllDenied => Some(Outcome::new("denied", self.tally.refusal())),
            Verdict::Stopped => Some(outcome::stopped(stop_reason, screen.last_message())),
        });
        let printed = self.print_end(end.as_ref(), failure.as_ref(), screen);
        if let Some(error) = self.unwritten.take() {
            return Err(unwritten(error).into());
        }
        printed?;
        match failure {
            Some(failure) => Err(failure.error),
            None => Ok(Exit::Success),
        }
    }

    /// Prints the last object, for a program that reads JSON.
    fn print_end(
        &self,
        end: Option<&PromptEnd>,
        failure: Option<&Outcome>,
        screen: &mut Screen,
    ) -> anyhow::Result<()> {
        if self.unwritten.is_some() || !(self.args.json || self.args.stream_json) {
            return Ok(());
        }
        let mut object = json!({
            "stopReason": end.map(|end| &end.stop_reason),
            "usage": end.map(|end| &end.usage),
        });
        if self.args.json {
            object["sessionId"] = json!(self.session);
            object["text"] = json!(screen.collected()?);
            object["messages"] = json!(screen.messages());
        } else {
            object["type"] = json!("result");
        }
        if let Some(failure) = failure {
            object["error"] = failure.object();
        }
        Ok(screen.object(&object).map_err(unwritten)?)
    }
}

fn timed_out(args: &AskArgs) -> Failure {
    let seconds = args.timeout.unwrap_or_default().as_secs_f64();
    Failure::new(format!(
        "there was no whole answer within {seconds} s; the turn was cancelled"
    ))
    .hint("give it more time with --timeout")
}

fn interrupted() -> Failure {
    Failure::interrupted("interrupted; the turn was cancelled")
}

/// A new session, or the one that was named.
async fn attach(
    client: &Client,
    session: Option<&str>,
    settings: &Settings,
) -> anyhow::Result<Attached> {
    let Some(session) = session else {
        return Ok(client.new_session(&settings.cwd).await?);
    };
    let session = named(client, session).await?;
    let attached = match join(client, session, &settings.cwd).await {
        // It works in another directory. Unless one was named, that is the one meant.
        Err(error) if error.code() == Some(code::INVALID_PARAMS) && !settings.is_cwd_given => {
            let cwd = directory_of(client, session).await?.ok_or(error)?;
            join(client, session, cwd.as_ref()).await?
        }
        joined => joined?,
    };
    match attached.turn.state {
        TurnState::Idle => Ok(attached),
        TurnState::Running | TurnState::Waiting => {
            let sentence = format!("a turn is already running in session {session}");
            Err(Failure::new(sentence)
                .hint("wait until it has ended, then ask again")
                .into())
        }
    }
}

/// Attaches without a replay if the server can, else with one that nobody listens to.
async fn join(
    client: &Client,
    session: SessionId,
    cwd: &std::path::Path,
) -> Result<Attached, ClientError> {
    match client.resume_session(session, cwd, None).await {
        Err(error) if error.code() == Some(code::METHOD_NOT_FOUND) => {
            client.load_session(session, cwd).await
        }
        resumed => resumed,
    }
}

/// The session that `text` names, by its whole id or by the beginning of it.
async fn named(client: &Client, text: &str) -> anyhow::Result<SessionId> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    find::check_length(text)?;
    let begins = |one: &SessionSummary| one.session.to_string().starts_with(text);
    let found = listed(client, begins, AMBIGUOUS_MAX).await?;
    let ids: Vec<SessionId> = found.into_iter().map(|one| one.session).collect();
    Ok(find::one_of(&ids, text)?)
}

/// The directory that a session works in, if the server lists it.
async fn directory_of(
    client: &Client,
    session: SessionId,
) -> Result<Option<std::path::PathBuf>, ClientError> {
    let found = listed(client, |one| one.session == session, 1).await?;
    Ok(found.into_iter().next().map(|found| found.cwd.into()))
}

/// The first sessions of the server's list that are `wanted`, at most `count_max`.
async fn listed(
    client: &Client,
    wanted: impl Fn(&SessionSummary) -> bool,
    count_max: usize,
) -> Result<Vec<SessionSummary>, ClientError> {
    let (mut page, mut found) = (None, Vec::new());
    for _ in 0..LIST_PAGES_MAX {
        let listed = client.list_sessions(None, page.as_deref()).await?;
        found.extend(listed.sessions.into_iter().filter(&wanted));
        page = listed.next;
        if page.is_none() || found.len() >= count_max {
            break;
        }
    }
    Ok(found)
}

fn allow(ask: Ask) {
    answer(ask, PermissionOptionKind::AllowOnce);
}

fn deny(ask: Ask) {
    answer(ask, PermissionOptionKind::RejectOnce);
}

/// Denies, and has the model told why: nobody said no, nobody was there.
fn deny_because(ask: Ask, reason: &str) {
    let option = ask.option(PermissionOptionKind::RejectOnce);
    match option.map(|option| option.option_id.clone()) {
        Some(id) => ask.answer_because(&id, reason),
        None => ask.cancel(),
    }
}

/// The `ask` rule that forces this permission request even if another rule allows the call, and its source.
fn asking_rule(ask: &Ask) -> Option<String> {
    let rule = ask.raw.pointer("/_meta/fastness/askRule")?;
    let text = |field: &str| rule.get(field).and_then(serde_json::Value::as_str);
    Some(format!("{} of the {}", text("rule")?, text("from")?))
}

/// What the model is told of a call that only a person may allow.
fn unasked(rule: &str) -> String {
    format!(
        "The rule {rule} always asks the user, and there is no terminal to ask at. `--allow` does not replace the \
         user's answer. Do without it, or say so."
    )
}

/// What the model is told of a call that no rule allows.
fn unpermitted(rule: Option<&str>) -> String {
    let told =
        "No rule allows it, and the user cannot be asked: `fastness ask` runs without a terminal.";
    match rule {
        Some(rule) => {
            format!("{told} The user can allow it with --allow {rule}. Do without it, or say so.")
        }
        None => format!("{told} Do without it, or say so."),
    }
}

/// Without such an option it is declined.
fn answer(ask: Ask, kind: PermissionOptionKind) {
    match ask.option(kind).map(|option| option.option_id.clone()) {
        Some(id) => ask.answer(&id),
        None => ask.cancel(),
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn line(keyboard: &mut Option<Keyboard>) -> Option<String> {
    match keyboard {
        Some(keyboard) => keyboard.line().await,
        None => None,
    }
}

async fn withdrawn(question: &mut Option<Ask>) {
    match question {
        Some(ask) => ask.withdrawn().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
