//! Sessions: who may enter, what may happen next, and the one path by which it does.
//!
//! Read [`state`] for the rules, [`actor`] for the order in which a change becomes durable, then
//! visible, [`subscription`] for how a client follows, and [`directory`] for how sessions are found.
//!
//! ```text
//! Sessions ── attach ──► SessionActor ── decide → append → apply → ring ──► Feed
//!                            ▲    │ spawns                                    │
//!                  reports ──┘    └──► agent::turn            Subscription ◄──┘
//! ```

mod actor;
mod attach;
pub mod changes;
mod delegate;
pub mod directory;
pub mod disk_threads;
mod family;
mod feed;
pub mod handle;
pub mod mode;
pub mod overview;
pub mod policy;
mod repeated;
mod resume_file;
mod session_roots;
mod standing;
pub mod state;
mod store_task;
pub mod subscription;

pub use actor::adopt_traces_with;
pub use agent::project::Project;
pub use agent::{
    Catalog, ModelOption, OneModel, Patience, ProjectView, RemoteCommand, RemoteSource, Root,
    RootBase, Roots, client_side, file_names, library,
};
pub use changes::{Changed, Changes, FellBehind};
pub use directory::{Engine, NewSession, Sessions};
pub use handle::{
    Accepted, Answer, AttachError, Attached, CommandError, Config, Entrance, From, Label, Prompt,
    Rewound, SessionHandle, Snapshot, TurnPhase,
};
pub use journal::{Meta, StoreError, Stored};
pub use mode::Mode;
pub use overview::{Events, ForkError, Glance, Page, Told, Wanted, Which};
pub use state::{Asked, Fate, TurnOutcome};
pub use subscription::{Delivery, Item, Subscription};
