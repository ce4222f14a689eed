//! Who a connection is. [`Gate::admit`] turns a credential into a [`Principal`], and nothing else
//! can make one; [`token`] keeps the default token on disk.

pub mod door;
mod gate;
mod secret;
pub mod token;

pub use door::{Door, Origin, Turned};
pub use gate::{Credential, Gate, Principal, Unauthorized};
pub use secret::Secret;
