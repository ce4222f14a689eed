//! The door to the network, as the operator's settings open it.

use std::net::SocketAddr;

use anyhow::Context;
use netguard::{Guard, GuardBuilder, Policy, Resolver, SystemResolver};
use tools::web::{Search, Web};

use crate::render::Failure;
use crate::settings::Settings;

/// What tools reach the network through, in a program that listens at `own`, and the guard in it.
///
/// # Errors
/// If the search provider's address cannot be used.
pub(crate) fn web(settings: &Settings, own: &[SocketAddr]) -> anyhow::Result<(Web, Guard)> {
    let policy = Policy {
        own_listeners: own.to_vec(),
        ..settings.network.policy.clone()
    };
    let guard = guard(policy, SystemResolver::default())?;
    let guard = guard.build().context("TLS could not be set up")?;
    let search = settings.network.search.as_ref().map(|search| {
        let made = Search::new(search.provider.clone(), search.url.as_deref(), &guard);
        made.map_err(|error| Failure::usage(error.to_string()))
    });
    Ok((Web::new(guard.clone(), search.transpose()?), guard))
}

/// A guard that says who it is.
pub(crate) fn guard(policy: Policy, resolver: impl Resolver) -> anyhow::Result<GuardBuilder> {
    let agent = concat!("fastness/", env!("CARGO_PKG_VERSION"));
    let agent = agent.parse().context("the user agent is not a header")?;
    let builder = Guard::builder(policy).resolver(resolver);
    Ok(builder.user_agent(agent))
}
