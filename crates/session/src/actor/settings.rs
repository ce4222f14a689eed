//! What a client changes about a session besides prompting it: its model, its label, and how far
//! back it goes.

use domain::EventSeq;

use super::SessionActor;
use crate::handle::{CommandError, Label, Reply, Rewound};
use crate::mode::Mode;
use crate::state::{Command, Rejected};

impl SessionActor {
    /// Changes the mode. A sub-agent's is that of the session that called it.
    pub(super) async fn on_set_mode(&mut self, mode: Mode, reply: Reply<Result<(), CommandError>>) {
        if self.is_child() {
            let why = "a sub-agent has the mode of the session that called it";
            return reply(Err(CommandError::Invalid(why)));
        }
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        self.stage(Command::SetMode(mode));
        self.staged
            .after(move |stored| reply(stored.map_err(CommandError::Failed)));
    }

    /// Chooses another model. A turn that runs keeps the one it has.
    pub(super) async fn on_set_model(
        &mut self,
        model: String,
        reply: Reply<Result<(), CommandError>>,
    ) {
        if self.engine.catalog.offered(&model).is_err() {
            return reply(Err(CommandError::Invalid("there is no such model")));
        }
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        let chosen = self.open.as_ref().and_then(|open| open.state.model());
        if chosen != Some(model.as_str()) {
            self.model = None;
            self.is_model_changed = self.turn.is_some();
        }
        self.stage(Command::SetModel(model));
        self.staged
            .after(move |stored| reply(stored.map_err(CommandError::Failed)));
    }

    /// Changes what lists show of the session.
    pub(super) async fn on_label(&mut self, label: Label, reply: Reply<Result<(), CommandError>>) {
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        self.stage(Command::Label(label));
        self.staged
            .after(move |stored| reply(stored.map_err(CommandError::Failed)));
    }

    /// Undoes what came after the turn that ended at, or last before, `to`.
    pub(super) async fn on_rewind(
        &mut self,
        to: EventSeq,
        reply: Reply<Result<Rewound, CommandError>>,
    ) {
        if let Err(kind) = self.ensure_open().await {
            return reply(Err(CommandError::Failed(kind)));
        }
        let rewound = match self.try_stage(Command::Rewind(to)) {
            Ok(()) => {
                let state = self.open.as_ref().map(|open| &open.state);
                let last = state.and_then(|state| state.rewinds().last());
                let rewound = last.map(|last| Rewound {
                    to: last.to,
                    at: last.at,
                });
                rewound.ok_or(CommandError::Closed)
            }
            Err(Rejected::Nothing) => Err(CommandError::Invalid("no turn ended after that event")),
            Err(
                Rejected::Busy
                | Rejected::Late
                | Rejected::QueueFull
                | Rejected::Spent
                | Rejected::SubAgent
                | Rejected::Repeated(_),
            ) => Err(CommandError::Busy),
        };
        self.staged
            .after(move |stored| reply(stored.map_err(CommandError::Failed).and(rewound)));
    }
}
