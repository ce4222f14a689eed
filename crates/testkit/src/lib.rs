//! What the tests of Fastness stand on: the real program, a plain ACP client, and an oracle that
//! holds every message the program sends against the official schema.
//!
//! A story reads
//! `let server = Program::serve(binary, Script::says("hi")).await;`
//! `let mut client = AcpClient::connect_ws(&server).await;`
//! `let session = client.new_session().await;`
//! `assert_eq!(client.prompt(&session, "hello").await.text, "hi");`.

pub mod bridged;
pub mod chaos;
pub mod chatted;
pub mod client;
pub mod edge;
pub mod ferry;
pub mod guarded;
pub mod home;
pub mod journal;
pub mod kill;
pub mod model;
pub mod oracle;
pub mod peers;
pub mod process;
pub mod program;
pub mod random;
pub mod raw;
pub mod rounds;
pub mod script;
#[cfg(feature = "test-support")]
pub mod simulation;
pub mod system;
pub mod terminal;
pub mod tunnel;
mod wait;

pub use client::{AcpClient, AgentRequest, Answer, Choice, Reply, RequestId, RpcError, Update};
pub use guarded::Guarded;
pub use home::Home;
pub use oracle::Oracle;
pub use peers::Peer;
pub use program::Program;
pub use raw::{RawRemote, RawSocket};
pub use script::Script;
pub use terminal::Terminal;
pub use wait::wait_for;
