//! A hook as it is written in a file.

use std::time::Duration;

use domain::event::HookPoint;
use domain::limits::{HOOK_TIME_DEFAULT, HOOK_TIME_MAX};
use domain::stars::is_like;
use serde::Deserialize;

/// A command that runs when something happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// When.
    pub point: HookPoint,
    /// For which tools.
    pub matcher: Matcher,
    /// What, for the shell.
    pub command: String,
    /// How long it may take.
    pub time_max: Duration,
    /// What it means if it cannot say what it thinks.
    pub on_failure: OnFailure,
}

/// What a hook that failed means for what it was asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// It does not happen.
    Block,
    /// It happens as if there were no such hook.
    Ignore,
}

/// Names of tools: alternatives between `|`, in which `*` stands for anything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matcher {
    /// None matches everything.
    alternatives: Vec<String>,
}

#[derive(Deserialize)]
struct Written {
    event: HookPoint,
    command: String,
    matcher: Option<String>,
    timeout_ms: Option<u64>,
    on_failure: Option<OnFailure>,
}

impl Hook {
    pub(super) fn read(value: toml::Value) -> Result<Self, String> {
        let written: Result<Written, toml::de::Error> = value.try_into();
        let written = written.map_err(|error| error.message().replace('\n', " "))?;
        let point = written.event;
        if written.command.trim().is_empty() {
            return Err("the command is empty".to_owned());
        }
        let is_about_tools = matches!(point, HookPoint::PreToolUse | HookPoint::PostToolUse);
        if written.matcher.is_some() && !is_about_tools {
            let problem = "a matcher is for PreToolUse and PostToolUse";
            return Err(format!("{problem}, not for {}", point.name()));
        }
        let time_max = match written.timeout_ms.map(Duration::from_millis) {
            None => HOOK_TIME_DEFAULT,
            Some(time) if time.is_zero() || time > HOOK_TIME_MAX => {
                let longest = HOOK_TIME_MAX.as_millis();
                return Err(format!("timeout_ms is between 1 and {longest}"));
            }
            Some(time) => time,
        };
        Ok(Self {
            point,
            matcher: Matcher::parse(written.matcher.as_deref().unwrap_or_default()),
            command: written.command,
            time_max,
            on_failure: written.on_failure.unwrap_or(usual(point)),
        })
    }

    /// Whether it runs at `point`, about the tool called `tool`.
    #[must_use]
    pub fn is_for(&self, point: HookPoint, tool: Option<&str>) -> bool {
        self.point == point && tool.is_none_or(|tool| self.matcher.matches(tool))
    }
}

/// A hook that guards something is not passed by breaking it.
fn usual(point: HookPoint) -> OnFailure {
    match point {
        HookPoint::UserPromptSubmit | HookPoint::PreToolUse => OnFailure::Block,
        HookPoint::SessionStart
        | HookPoint::BeforeModelCall
        | HookPoint::AfterModelCall
        | HookPoint::PostToolUse
        | HookPoint::SessionCompacting
        | HookPoint::Stop
        | HookPoint::SessionEnd => OnFailure::Ignore,
    }
}

impl Matcher {
    fn parse(text: &str) -> Self {
        let alternatives = text
            .split('|')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Self {
            alternatives: alternatives.map(str::to_owned).collect(),
        }
    }

    /// Whether the tool called `name` is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.alternatives.is_empty()
            || self
                .alternatives
                .iter()
                .any(|pattern| is_like(name, pattern))
    }
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.alternatives.as_slice() {
            [] => f.write_str("every tool"),
            names => f.write_str(&names.join(" or ")),
        }
    }
}
