//! `todo`: the agent's plan, for the person to see.

use domain::event::{PlanEntry, PlanPriority, PlanStatus, ToolKind};
use domain::limits::{PLAN_ENTRIES_MAX, PLAN_ENTRY_BYTES_MAX};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, RunsHere, Shown, Tool, one_line, parse_input};
use crate::roots::Roots;

pub(crate) struct Todo;

#[derive(Deserialize)]
struct Input {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    content: String,
    status: PlanStatus,
    #[serde(default)]
    priority: PlanPriority,
}

impl Tool for Todo {
    fn name(&self) -> &'static str {
        "todo"
    }

    fn description(&self) -> &'static str {
        "Shows the user your plan. Give the whole list every time. Keep at most one item `in_progress`, \
         and mark items `completed` as soon as they are done."
    }

    fn input_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "items": {
                    "type": "array",
                    "description": "All steps, in order",
                    "items": {
                        "type": "object",
                        "properties": {
                            "content": {"type": "string", "description": "What to do"},
                            "status": {
                                "type": "string",
                                "enum": ["pending", "in_progress", "completed"],
                                "description": "Progress of the step",
                            },
                            "priority": {
                                "type": "string",
                                "enum": ["high", "medium", "low"],
                                "description": "Importance of the step",
                            },
                        },
                        "required": ["content", "status"],
                    },
                },
            },
            "required": ["items"],
        })
    }

    fn show(&self, input: &Value, _: &Roots) -> Shown {
        let items = input.get("items").and_then(Value::as_array);
        let count = items.map_or(0, Vec::len);
        Shown {
            title: format!("Plan of {count} steps"),
            kind: ToolKind::Think,
            locations: Vec::new(),
            content: Vec::new(),
        }
    }

    fn here(&self) -> Option<&dyn RunsHere> {
        Some(self)
    }
}

impl RunsHere for Todo {
    fn run(&self, input: Value, _: &Roots) -> Outcome {
        let Input { items } = match parse_input(self.name(), input) {
            Ok(input) => input,
            Err(outcome) => return outcome,
        };
        if items.len() > PLAN_ENTRIES_MAX {
            return Outcome::failed(format!("A plan has at most {PLAN_ENTRIES_MAX} items."));
        }
        let entry = |item: Item| {
            let content = one_line(&item.content);
            let end = content.floor_char_boundary(PLAN_ENTRY_BYTES_MAX);
            PlanEntry {
                content: content[..end].to_owned(),
                priority: item.priority,
                status: item.status,
            }
        };
        let plan: Vec<PlanEntry> = items.into_iter().map(entry).collect();
        let is_done = |entry: &&PlanEntry| entry.status == PlanStatus::Completed;
        let done = plan.iter().filter(is_done).count();
        let text = format!("The plan is shown: {done} of {} done.", plan.len());
        Outcome::completed(text).planning(plan)
    }
}
