//! Where hooks look into a turn, and what the project brings along when it begins.
//!
//! Each stage of the loop has one function here. Without hooks they cost a look at a list.

use std::sync::Arc;

use domain::event::{HookPoint, MessageKind};
use domain::limits::{HOOK_TEXT_BYTES_MAX, MCP_QUIET_WAIT, STOP_BLOCKS_MAX};
use llm::{ChooseError, Chunk, Message, ToolCall};
use serde_json::{Map, Value, json};
use tools::Outcome;
use tools::library::Expanded;
use tools::remote::{RemoteTools, Settling};
use tools::sandbox::Grants;

use super::compact::Why;
use super::{OtherModels, Stopped, Turn, overhead, specs, unless_cancelled};
use crate::hooks;
use crate::project::Project;
use crate::report::{Note, Report};

/// Whether the turn goes on.
pub(super) enum Go {
    On,
    /// A hook said no.
    NoFurther,
}

/// A call as the hooks have left it.
pub(super) struct Prepared {
    pub(super) call: ToolCall,
    /// Why it must not run.
    pub(super) refused: Option<String>,
    /// What the model shall read with its result.
    pub(super) context: Option<String>,
}

/// What the hooks of one point said, one after the other.
#[derive(Default)]
struct Said {
    stopped: Option<String>,
    /// The command of the hook that stopped it.
    stopped_by: Option<String>,
    input: Option<Value>,
    result: Option<String>,
    context: Option<String>,
}

impl Turn {
    /// Looks at what is around the session.
    pub(super) async fn look_around(&mut self) -> Result<(), Stopped> {
        let project = unless_cancelled(&self.cancel, self.view.look_since(self.asked)).await?;
        for text in self.view.news(&project) {
            self.report(Report::Note(Note::Told(text))).await?;
        }
        self.take_model(&project).await?;
        let library = Arc::clone(&project.library);
        let toolbox = self.toolbox.clone().with_library(library);
        let toolbox = toolbox.with_agents(project.agents.clone());
        let network = project.rules.grants_network();
        let toolbox = toolbox.with_grants(Grants {
            network,
            ..Grants::default()
        });
        self.toolbox = toolbox.with_sandbox_changed(|settings| {
            project.sandbox.apply(settings, project.home.as_deref());
        });
        unless_cancelled(&self.cancel, self.toolbox.look_at_files()).await?;
        for text in unless_cancelled(&self.cancel, self.toolbox.discover()).await? {
            self.report(Report::Note(Note::Told(text))).await?;
        }
        if let Some(remote) = self.toolbox.remote().cloned() {
            let settling = remote.settle(project.servers.clone(), self.patience);
            self.wait_for_servers(&*remote, settling).await?;
        }
        self.take_commands();
        self.toolbox.look_again();
        self.tools = specs(&self.toolbox);
        self.system = format!("{}{}", self.system, project.prompt).into();
        self.overhead = overhead(&self.system, &self.tools);
        self.project = project;
        Ok(())
    }

    /// Waits for tool servers to start, and tells the user which ones it still waits for if that takes long.
    async fn wait_for_servers(
        &mut self,
        remote: &dyn RemoteTools,
        mut settling: Settling,
    ) -> Result<(), Stopped> {
        let soon = tokio::time::timeout(MCP_QUIET_WAIT, &mut settling);
        if unless_cancelled(&self.cancel, soon).await?.is_ok() {
            return Ok(());
        }
        for text in remote.news() {
            self.report(Report::Note(Note::Told(text))).await?;
        }
        unless_cancelled(&self.cancel, settling).await
    }

    /// Offers what tool servers have to offer by now, and tells a person what became of them.
    pub(super) async fn look_at_servers(&mut self) -> Result<(), Stopped> {
        let Some(remote) = self.toolbox.remote() else {
            return Ok(());
        };
        for text in remote.news() {
            self.report(Report::Note(Note::Told(text))).await?;
        }
        self.take_commands();
        if self.toolbox.look_again() {
            self.tools = specs(&self.toolbox);
            self.overhead = overhead(&self.system, &self.tools);
        }
        Ok(())
    }

    /// Goes on with the model that the project has for its sessions, if this one has none yet, and
    /// at the address that the project names.
    async fn take_model(&mut self, project: &Project) -> Result<(), Stopped> {
        let OtherModels {
            catalog,
            spec,
            takes_project_model,
        } = self.models.clone();
        let Some(catalog) = catalog else {
            return Ok(());
        };
        let wanted = project.model.clone().filter(|_| takes_project_model);
        let spec = wanted.as_ref().unwrap_or(&spec);
        let provider = match catalog.at(&project.addresses, spec) {
            Some(Ok(provider)) => {
                let model = std::mem::replace(&mut self.model, provider.open());
                self.own_model = Some(model);
                return self.chose(wanted).await;
            }
            Some(Err(error)) => Err(error),
            // Only what is on offer anyway: such a project names no files and no servers.
            None if wanted.is_some() => catalog.offered(spec),
            None => return Ok(()),
        };
        match provider {
            Ok(provider) => {
                self.model = provider.open();
                self.chose(wanted).await
            }
            Err(ChooseError::NotOffered) => {
                let text = format!("The project's model {spec} is not on offer here");
                self.report(Report::Note(Note::Told(text))).await
            }
            Err(error) => {
                let text = format!("The project's address for {spec} is not used: {error}");
                self.report(Report::Note(Note::Told(text))).await
            }
        }
    }

    /// From now on the session has this model, if it is another one.
    async fn chose(&mut self, spec: Option<String>) -> Result<(), Stopped> {
        match spec {
            Some(spec) => self.report(Report::Model(spec)).await,
            None => Ok(()),
        }
    }

    /// Has the prompt judged.
    pub(super) async fn begin(&mut self) -> Result<Go, Stopped> {
        if self.view.begin() {
            let said = self.ask(HookPoint::SessionStart, None, Map::new()).await?;
            if said.stopped.is_some() {
                return Ok(Go::NoFurther);
            }
        }
        self.judge_prompt().await
    }

    /// Expands the prompt if it names a command, then asks the hooks about it.
    async fn judge_prompt(&mut self) -> Result<Go, Stopped> {
        let library = &self.project.library;
        let has_names = !library.commands().is_empty() || !library.skills().is_empty();
        let has_hooks = !self.hooks_at(HookPoint::UserPromptSubmit, None).is_empty();
        let has_names = has_names || self.toolbox.remote().is_some();
        if !has_names && !has_hooks {
            return Ok(Go::On);
        }
        let prompt = self.prompt().await?;
        let mut fields = Map::new();
        if let Some(text) = self.expand(&prompt).await? {
            fields.insert("expansion".to_owned(), Value::from(text));
        }
        fields.insert("prompt".to_owned(), Value::from(prompt));
        let said = self.ask(HookPoint::UserPromptSubmit, None, fields).await?;
        Ok(said.stopped.map_or(Go::On, |_| Go::NoFurther))
    }

    /// What the person typed.
    async fn prompt(&mut self) -> Result<String, Stopped> {
        let context = self.context().await?;
        Ok(match context.messages.last() {
            Some(Message::User { text, .. }) => text.clone(),
            Some(Message::Assistant { .. } | Message::ToolResults(_)) | None => String::new(),
        })
    }

    /// Stores what the prompt stands for, if it names a command or skill.
    async fn expand(&mut self, prompt: &str) -> Result<Option<String>, Stopped> {
        if !prompt.trim_start().starts_with('/') {
            return Ok(None);
        }
        let (library, typed) = (Arc::clone(&self.project.library), prompt.to_owned());
        // Its file is read now.
        let expanded = tokio::task::spawn_blocking(move || library.expand_prompt(&typed));
        let expanded = unless_cancelled(&self.cancel, expanded).await?;
        let expanded = match expanded.ok().flatten() {
            Some(expanded) => Some(expanded),
            None => self.expand_by_server(prompt).await?,
        };
        match expanded {
            None => Ok(None),
            Some(Ok(expanded)) => {
                let (name, text) = (expanded.name, expanded.text);
                let note = Note::Expanded {
                    name,
                    text: text.clone(),
                };
                self.report(Report::Note(note)).await?;
                Ok(Some(text))
            }
            Some(Err(problem)) => {
                self.report(Report::Note(Note::Told(problem))).await?;
                Ok(None)
            }
        }
    }

    /// What the prompt stands for, if a tool server has prepared it.
    async fn expand_by_server(
        &mut self,
        prompt: &str,
    ) -> Result<Option<Result<Expanded, String>>, Stopped> {
        let typed = prompt.trim();
        let command = typed.strip_prefix('/').unwrap_or_default();
        let (name, arguments) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        let remote = self.toolbox.remote();
        let Some(expanding) = remote.and_then(|remote| remote.expand(name, arguments)) else {
            return Ok(None);
        };
        let expanded = unless_cancelled(&self.cancel, expanding).await?;
        let name = name.to_owned();
        Ok(Some(expanded.map(|text| Expanded {
            name,
            text: format!("{typed}\n\n{text}"),
        })))
    }

    /// Lets clients know what can be typed of what tool servers have prepared.
    fn take_commands(&self) {
        if let Some(remote) = self.toolbox.remote() {
            self.view.take_commands(remote.commands());
        }
    }

    pub(super) async fn before_model(&mut self) -> Result<Go, Stopped> {
        self.said.clear();
        let said = self
            .ask(HookPoint::BeforeModelCall, None, Map::new())
            .await?;
        Ok(said.stopped.map_or(Go::On, |_| Go::NoFurther))
    }

    /// Remembers what the model says, if a hook will want to know.
    pub(super) fn hear(&mut self, chunk: &Chunk) {
        let room = HOOK_TEXT_BYTES_MAX.saturating_sub(self.said.len());
        if let Chunk::Text(text) = chunk
            && room > 0
            && !self.project.hooks.all().is_empty()
        {
            self.said.push_str(&text[..text.floor_char_boundary(room)]);
        }
    }

    pub(super) async fn after_model(&mut self, calls: &[ToolCall]) -> Result<Go, Stopped> {
        if self.hooks_at(HookPoint::AfterModelCall, None).is_empty() {
            return Ok(Go::On);
        }
        let calls = calls.iter();
        let calls: Vec<Value> = calls
            .map(|call| json!({"toolName": call.name, "toolInput": call.input}))
            .collect();
        let mut fields = Map::new();
        fields.insert("text".to_owned(), Value::from(self.said.clone()));
        fields.insert("toolCalls".to_owned(), Value::from(calls));
        let said = self.ask(HookPoint::AfterModelCall, None, fields).await?;
        Ok(said.stopped.map_or(Go::On, |_| Go::NoFurther))
    }

    /// Whether a hook keeps the turn from ending; the model then reads why.
    pub(super) async fn is_held_up(&mut self, times: &mut u32) -> Result<bool, Stopped> {
        if *times >= STOP_BLOCKS_MAX {
            return Ok(false);
        }
        let mut fields = Map::new();
        fields.insert("text".to_owned(), Value::from(self.said.clone()));
        fields.insert("heldUp".to_owned(), Value::from(*times));
        let said = self.ask(HookPoint::Stop, None, fields).await?;
        *times += 1;
        Ok(said.stopped.is_some())
    }

    /// What hooks want a summary to mind, or why the conversation must not be made shorter.
    pub(super) async fn before_compacting(
        &mut self,
        why: Why<'_>,
    ) -> Result<Result<String, String>, Stopped> {
        let trigger = match why {
            Why::Crowded => "crowded",
            Why::Refused => "refused",
            Why::Wanted(_) => "wanted",
        };
        let mut fields = Map::new();
        fields.insert("trigger".to_owned(), Value::from(trigger));
        let said = self.ask(HookPoint::SessionCompacting, None, fields).await?;
        Ok(match said.stopped {
            Some(why) => Err(why),
            None => Ok(said.context.unwrap_or_default()),
        })
    }

    /// Has the hooks look at a call before anybody judges it. What they make of it is what is
    /// judged, shown and stored.
    pub(super) async fn before_tool(&mut self, call: ToolCall) -> Result<Prepared, Stopped> {
        let mut fields = Map::new();
        if !self.project.hooks.all().is_empty() {
            fields.insert("toolInput".to_owned(), call.input.clone());
        }
        let said = self.ask(HookPoint::PreToolUse, Some(&call), fields).await?;
        let input = match said.input {
            Some(input) => self.toolbox.resolve(&call.name, input).input,
            None => call.input.clone(),
        };
        let hook = said.stopped_by.unwrap_or_default();
        let refused = said.stopped;
        let refused = refused.map(|why| format!("The hook `{hook}` refused it: {why}"));
        Ok(Prepared {
            call: ToolCall { input, ..call },
            refused,
            context: said.context,
        })
    }

    /// Has the hooks look at a result before it is stored. What was done stays done.
    pub(super) async fn after_tool(
        &mut self,
        call: &ToolCall,
        context: Option<String>,
        outcome: Outcome,
    ) -> Result<Outcome, Stopped> {
        let mut fields = Map::new();
        if !self.project.hooks.all().is_empty() {
            fields.insert("toolInput".to_owned(), call.input.clone());
            let result = json!({"status": outcome.status, "text": outcome.text});
            fields.insert("result".to_owned(), result);
        }
        let said = match self.ask(HookPoint::PostToolUse, Some(call), fields).await {
            Ok(said) => said,
            // It ran, so it has its outcome; the turn ends at its next step.
            Err(Stopped::Cancelled) => Said::default(),
            Err(stopped) => return Err(stopped),
        };
        let mut text = said.result.unwrap_or(outcome.text);
        let objection = said.stopped.map(|why| format!("A hook objects: {why}"));
        for remark in [context, said.context, objection].into_iter().flatten() {
            text.push_str("\n\n[from a hook]\n");
            text.push_str(&remark);
        }
        Ok(Outcome { text, ..outcome })
    }

    /// Whether a hook wants to see how `call` ended.
    pub(super) fn is_looked_at(&self, call: &ToolCall) -> bool {
        !self.hooks_at(HookPoint::PostToolUse, Some(call)).is_empty()
    }

    fn hooks_at(&self, point: HookPoint, call: Option<&ToolCall>) -> Vec<crate::settings::Hook> {
        let tool = call.map(|call| call.name.as_str());
        self.project.hooks.at(point, tool)
    }

    /// Asks the hooks of `point`, each about what the one before it made of `fields`, until one
    /// says no. Each leaves its event in the journal.
    async fn ask(
        &mut self,
        point: HookPoint,
        call: Option<&ToolCall>,
        mut fields: Map<String, Value>,
    ) -> Result<Said, Stopped> {
        let mut said = Said::default();
        for hook in self.hooks_at(point, call) {
            fields.insert("turn".to_owned(), json!(self.turn));
            if let Some(call) = call {
                fields.insert("toolName".to_owned(), json!(call.name));
                fields.insert("callId".to_owned(), json!(call.id));
            }
            let running = self.project.hooks.run(&hook, self.view.place(), &fields);
            let mut ran = match unless_cancelled(&self.cancel, running).await {
                Ok(ran) => ran,
                Err(stopped) => {
                    let event = hooks::cut_off(&hook);
                    self.report(Report::Note(Note::Hook(event))).await?;
                    return Err(stopped);
                }
            };
            ran.event.call_id = call.map(|call| call.id.clone());
            let answer = &mut ran.answer;
            if let Some(input) = answer.input.take() {
                fields.insert("toolInput".to_owned(), input.clone());
                said.input = Some(input);
            }
            if let Some(text) = answer.result.take() {
                fields["result"]["text"] = Value::from(text.clone());
                said.result = Some(text);
            }
            if let Some(text) = answer.prompt.take() {
                fields.insert("prompt".to_owned(), Value::from(text.clone()));
                ran.event.prompt = Some(text);
            }
            // Between calls and their results nothing may stand, so what is about a call goes with
            // its result; and what a summary shall mind is for that alone.
            let is_apart = call.is_some() || point == HookPoint::SessionCompacting;
            match answer.context.take() {
                Some(text) if is_apart => add(&mut said.context, &text),
                context => ran.event.context = context,
            }
            if let Some(why) = ran.stopped {
                self.tell_why(point, &why, &ran.event.command).await?;
                if point == HookPoint::Stop {
                    ran.event.context = Some(why.clone());
                }
                said.stopped = Some(why);
                said.stopped_by = Some(ran.event.command.clone());
            }
            self.report(Report::Note(Note::Hook(ran.event))).await?;
            if said.stopped.is_some() {
                break;
            }
        }
        Ok(said)
    }

    /// Tells the person why the turn ends here, if it does. Before the hook's own event, for that
    /// of a refused prompt takes all that came since out of the model's sight.
    async fn tell_why(&mut self, point: HookPoint, why: &str, hook: &str) -> Result<(), Stopped> {
        let text = match point {
            HookPoint::SessionStart | HookPoint::UserPromptSubmit => {
                format!("A hook did not let this prompt through: {why} (the hook is `{hook}`)")
            }
            HookPoint::BeforeModelCall | HookPoint::AfterModelCall => {
                format!("A hook ended this turn: {why} (the hook is `{hook}`)")
            }
            HookPoint::PreToolUse
            | HookPoint::PostToolUse
            | HookPoint::SessionCompacting
            | HookPoint::Stop
            | HookPoint::SessionEnd => return Ok(()),
        };
        let (kind, delta) = (MessageKind::Text, text);
        self.report(Report::Text { kind, delta }).await
    }
}

fn add(to: &mut Option<String>, text: &str) {
    let all = to.get_or_insert_default();
    if !all.is_empty() {
        all.push('\n');
    }
    all.push_str(text);
}
