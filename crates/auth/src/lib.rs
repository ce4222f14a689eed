//! Who a connection is. [`Gate::admit`] turns a credential into a [`Principal`], and nothing else
//! can make one; [`token`] keeps the default token on disk, [`named`] the others, [`ticket`] lets
//! a browser have one, [`Gate::share`] makes one to look at a session with, and [`resume`] lets a
//! client come back to a session.

pub mod door;
mod gate;
pub mod named;
pub mod resume;
mod secret;
mod share;
pub mod ticket;
pub mod token;

pub use door::{Door, Origin, Turned};
pub use gate::{Credential, Fingerprint, Gate, Principal, Unauthorized, own_uid};
pub use named::{NamedToken, NamedTokens, NewToken, Scope};
pub use resume::{Grant, Line, ResumeTokens};
pub use secret::Secret;
pub use share::ShareError;
pub use ticket::{Login, LoginError};
