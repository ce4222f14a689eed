//! `task`: gives a part of the work to an agent, and takes its report.

use domain::event::ToolKind;
use domain::limits::TASK_PROMPT_BYTES_MAX;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Running, RunsAgents, Shown, TaskCall, Tool, one_line, parse_input};
use crate::agents::{Agents, GENERAL, Task as Work};
use crate::roots::Roots;

/// Characters of a title: what is to be done, not all that is said about it.
const TITLE_CHARS_MAX: usize = 80;

pub(crate) struct Task;

#[derive(Deserialize)]
struct Input {
    #[serde(default)]
    agent: Option<String>,
    prompt: String,
}

impl Tool for Task {
    fn name(&self) -> &'static str {
        "task"
    }

    fn description(&self) -> &'static str {
        "Gives a task to another agent, which works on it alone and reports the result. It sees nothing \
         of this conversation. Independent tasks can be given together in one answer; they run at the \
         same time. The agents:"
    }

    fn described(&self, agents: &Agents) -> String {
        format!("{}{}", self.description(), agents.list())
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "agent": {"type": "string", "description": "Which agent; default: `general`"},
                "prompt": {
                    "type": "string",
                    "description": "All it needs to know, and what to report",
                },
            },
            "required": ["prompt"],
        })
    }

    fn show(&self, input: &Value, _roots: &Roots) -> Shown {
        let text = |key: &str| input.get(key).and_then(Value::as_str);
        let agent = text("agent").filter(|agent| !agent.trim().is_empty());
        let prompt = text("prompt").unwrap_or_default().trim();
        let first = prompt.lines().next().unwrap_or_default();
        let title = one_line(&format!("{}: {first}", agent.unwrap_or(GENERAL)));
        let title = match title.char_indices().nth(TITLE_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &title[..end]),
            None => title,
        };
        Shown {
            title,
            kind: ToolKind::Think,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn is_task(&self) -> bool {
        true
    }

    fn as_agent(&self) -> Option<&dyn RunsAgents> {
        Some(self)
    }
}

impl RunsAgents for Task {
    fn run(&self, input: Value, call: TaskCall) -> Running {
        let refused = |outcome: Outcome| -> Running { Box::pin(std::future::ready(outcome)) };
        let Input { agent, prompt } = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return refused(outcome),
        };
        if prompt.trim().is_empty() || prompt.len() > TASK_PROMPT_BYTES_MAX {
            let problem = format!("A task is between 1 and {TASK_PROMPT_BYTES_MAX} bytes long.");
            return refused(Outcome::failed(problem));
        }
        let agent = match call.agents.find(agent.as_deref()) {
            Ok(agent) => agent.clone(),
            Err(problem) => return refused(Outcome::failed(problem)),
        };
        call.delegate.run(Work {
            call: call.call,
            agent,
            prompt,
            seat: call.seat,
            remote: call.remote,
            tokens_left: call.tokens_left,
            place: call.place,
        })
    }
}
