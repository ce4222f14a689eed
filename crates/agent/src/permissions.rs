//! Rules about tools: what they say of a call, before anybody is asked.
//!
//! [`Rule`] is one rule as people write it; [`Rules`] are all that count in a session, the
//! operator's and the project's. One that denies beats one that asks, which beats one that allows.
//! Denying and asking err on the side of the rule, allowing errs on the side of asking. What a mode
//! or an earlier answer makes of it is the session's to say.

mod commands;
mod paths;
mod rule;
mod shell;
mod sites;
#[cfg(any(test, feature = "test-support"))]
pub mod soak;

use std::sync::Arc;

use serde_json::Value;
use tools::protected::{self, Protection};
use tools::touched::{self, Touched};

pub use rule::{Rule, RuleError};

use crate::settings::PermissionSettings;
use commands::Judged;
use rule::Hit;

/// A call that is to be judged.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its input.
    pub input: &'a Value,
    /// What it touches, if [`Rules::needs_files`] says that this matters.
    pub touched: Option<&'a Touched>,
}

/// What rules say of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruled {
    /// Nothing.
    Silent,
    /// It may run, because of these.
    Allow(Vec<Named>),
    /// It would write a protected file or make a repository, and no rule allows exactly that: the
    /// user decides, except in mode `bypass`. The text says which program does what with it.
    Protected(&'static str),
    /// A person decides, because of this one.
    Ask(Named),
    /// It does not run; the text says why, for the model.
    Deny(String),
}

/// A rule and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The rule as it is written.
    pub rule: String,
    /// Where it stands.
    pub from: Origin,
}

/// Where a rule stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the operator's own file, or on the command line.
    Operator,
    /// In the project's file.
    Project,
}

impl Origin {
    /// As it is stored.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Project => "project",
        }
    }
}

/// All rules that count in a session. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    deny: Arc<[Held]>,
    ask: Arc<[Held]>,
    allow: Arc<[Held]>,
}

#[derive(Clone, Debug)]
struct Held {
    rule: Rule,
    from: Origin,
}

impl Held {
    fn named(&self) -> Named {
        Named {
            rule: self.rule.to_string(),
            from: self.from,
        }
    }
}

impl Rules {
    /// The operator's and what counts of the project's.
    #[must_use]
    pub fn new(operator: &PermissionSettings, project: &PermissionSettings) -> Self {
        let held = |own: &[Rule], other: &[Rule]| {
            let held = |from| {
                move |rule: &Rule| Held {
                    rule: rule.clone(),
                    from,
                }
            };
            let own = own.iter().map(held(Origin::Operator));
            own.chain(other.iter().map(held(Origin::Project))).collect()
        };
        Self {
            deny: held(&operator.deny, &project.deny),
            ask: held(&operator.ask, &project.ask),
            allow: held(&operator.allow, &project.allow),
        }
    }

    /// Whether what a call of `tool` touches matters to some rule.
    #[must_use]
    pub fn needs_files(&self, tool: &str) -> bool {
        if touched::writes(tool) {
            return true;
        }
        let mut all = self.deny.iter().chain(&*self.ask).chain(&*self.allow);
        all.any(|held| {
            let matters = held.rule.is_about_files() || held.rule.is_about_commands();
            matters && held.rule.names(tool)
        })
    }

    /// Whether commands may use the network: some rule allows `network`, and none denies it or
    /// wants it asked about.
    #[must_use]
    pub fn grants_network(&self) -> bool {
        let has = |rules: &[Held]| rules.iter().any(|held| held.rule.names("network"));
        has(&self.allow) && !has(&self.ask) && !has(&self.deny)
    }

    /// Whether the program of the tool server called `server` may use the network: some rule allows that by
    /// its name, `mcp_network`, and none denies it or wants it asked about.
    #[must_use]
    pub fn grants_network_to(&self, server: &str) -> bool {
        let mut taken = self.ask.iter().chain(&*self.deny);
        let mut given = self.allow.iter();
        given.any(|held| held.rule.gives_network_to(server))
            && !taken.any(|held| held.rule.may_be_about_network_of(server))
    }

    /// What they say of `call`.
    #[must_use]
    pub fn judge(&self, call: &Call<'_>) -> Ruled {
        let judged = self.judged(call);
        let judged = judged.as_ref();
        for held in &*self.deny {
            match held.rule.may_be_about(call, judged) {
                Hit::No => {}
                Hit::Yes => return Ruled::Deny(denied(held)),
                Hit::Perhaps(why) => return Ruled::Deny(perhaps_denied(held, why)),
            }
        }
        let asks = |held: &&Held| held.rule.may_be_about(call, judged) != Hit::No;
        if let Some(held) = self.ask.iter().find(asks) {
            return Ruled::Ask(held.named());
        }
        if let Some(guard) = Guard::of(call) {
            let explicit = self.allow.iter().find(|held| guard.is_named_by(held, call));
            let named = explicit.and_then(|_| self.allowed(call, judged));
            return named.map_or(Ruled::Protected(guard.reason()), Ruled::Allow);
        }
        self.allowed(call, judged)
            .map_or(Ruled::Silent, Ruled::Allow)
    }

    /// The parts of a command, if rules are about some.
    fn judged(&self, call: &Call<'_>) -> Option<Judged> {
        let mut all = self.deny.iter().chain(&*self.ask).chain(&*self.allow);
        let matters = all.any(|held| held.rule.is_about_commands() && held.rule.names(call.tool));
        let text = |field: &str| call.input.get(field).and_then(Value::as_str);
        // Without a command it does not run.
        matters.then(|| Judged::of(text("command").unwrap_or_default(), elsewhere(call)))
    }

    /// The rules that allow all of it.
    fn allowed(&self, call: &Call<'_>, judged: Option<&Judged>) -> Option<Vec<Named>> {
        let whole = self.allow.iter().find(|held| held.rule.allows(call));
        if let Some(held) = whole {
            return Some(vec![held.named()]);
        }
        let parts = judged?.to_cover.as_ref().ok()?;
        let mut rules: Vec<Named> = Vec::new();
        for part in parts {
            let covers = |held: &&Held| {
                let pattern = held.rule.commands();
                pattern.is_some_and(|pattern| pattern.covers(part))
            };
            let held = self.allow.iter().find(covers)?.named();
            if !rules.contains(&held) {
                rules.push(held);
            }
        }
        (!rules.is_empty()).then_some(rules)
    }
}

/// Why a call needs a rule that names what it does.
enum Guard<'a> {
    File(&'a Protection),
    Repository,
}

impl<'a> Guard<'a> {
    fn of(call: &Call<'a>) -> Option<Self> {
        if touched::writes(call.tool) {
            let protection = call.touched?.protection.as_ref();
            return protection.map(Self::File);
        }
        let command = call.input.get("command").and_then(Value::as_str);
        let makes = call.tool == "bash" && command.is_some_and(protected::makes_repository);
        makes.then_some(Self::Repository)
    }

    /// Whether an allow rule names it: the part of the path that is protected, or the command that
    /// makes a repository. One about everything does not.
    fn is_named_by(&self, held: &Held, call: &Call<'_>) -> bool {
        match self {
            Self::File(protection) => {
                held.rule.names_file(&protection.part) && held.rule.allows(call)
            }
            Self::Repository => held.rule.names_command(protected::REPOSITORY_WORDS),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::File(protection) => protection.reason,
            Self::Repository => "makes a git repository",
        }
    }
}

/// The directory that a command is to run in, if that is not the session's own.
fn elsewhere<'a>(call: &Call<'a>) -> Option<&'a str> {
    let cwd = call.input.get("cwd")?.as_str()?;
    let is_own = call
        .touched
        .is_some_and(|touched| touched.is_working_directory);
    (!is_own && !matches!(cwd, "" | "." | "./")).then_some(cwd)
}

/// The narrowest rules that together allow a call of `bash`; `None` if only `bash` itself does.
#[must_use]
pub fn narrow_rules(call: &Call<'_>) -> Option<Vec<Rule>> {
    let command = call.input.get("command")?.as_str()?;
    let parts = Judged::of(command, elsewhere(call)).to_cover.ok()?;
    let mut rules: Vec<Rule> = Vec::new();
    for part in &parts {
        let rule: Rule = format!("bash({})", part.pattern()).parse().ok()?;
        rule.commands().filter(|pattern| pattern.covers(part))?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Some(rules)
}

/// Whether all that `command` starts can be seen in it, so that the same text always means the same programs.
#[must_use]
pub fn is_seen(command: &str) -> bool {
    Judged::of(command, None).unseen.is_none()
}

fn denied(held: &Held) -> String {
    format!(
        "It was not run: the rule {} of the {} denies it.",
        held.rule,
        held.from.name()
    )
}

fn perhaps_denied(held: &Held, why: &str) -> String {
    format!(
        "It was not run: {why}, so it may be what the rule {} of the {} denies. Write every command \
         out plainly.",
        held.rule,
        held.from.name()
    )
}

#[cfg(test)]
mod tests;
