//! Who a connection is. [`Gate::admit`] turns a credential into a [`Principal`], and nothing else
//! can make one; [`token`] keeps the default token on disk.

pub mod door;
mod gate;
pub mod named;
mod secret;
pub mod token;

pub use door::{Door, Origin, Turned};
pub use gate::{Credential, Fingerprint, Gate, Principal, Unauthorized};
pub use named::{NamedToken, NamedTokens, NewToken, Scope};
pub use secret::Secret;
