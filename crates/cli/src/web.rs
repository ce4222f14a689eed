//! The door to the network, as the operator's settings open it.

use std::net::SocketAddr;

use anyhow::Context;
use netguard::{Guard, GuardBuilder, Policy, Resolver, SystemResolver};
use tools::web::{Search, Web};

use crate::render::Failure;
use crate::settings::Settings;

/// What tools reach the network through, and the guards in it.
pub(crate) struct Network {
    pub(crate) web: Web,
    /// For addresses that a model, a page or a guest names.
    pub(crate) guard: Guard,
    /// For addresses that the operator or the user names. It may use a proxy of the environment.
    pub(crate) trusted_guard: Guard,
}

/// The ways to the network in a program that listens at `own`.
///
/// # Errors
/// If the search provider's address cannot be used.
pub(crate) fn network(settings: &Settings, own: &[SocketAddr]) -> anyhow::Result<Network> {
    let policy = Policy {
        own_listeners: own.to_vec(),
        ..settings.network.policy.clone()
    };
    let made = guard(policy.clone(), SystemResolver::default(), settings)?;
    let made = made.build().context("TLS could not be set up")?;
    let trusted_guard = match settings.network.is_proxy_of_variables {
        false => made.clone(),
        true => {
            let policy = Policy {
                proxies: settings.network.proxies.clone(),
                judges_before_proxy: true,
                ..policy
            };
            let trusted = guard(policy, SystemResolver::default(), settings)?;
            trusted.build().context("TLS could not be set up")?
        }
    };
    let search = settings.network.search.as_ref().map(|search| {
        let made = Search::new(search.provider.clone(), search.url.as_deref(), &made);
        made.map_err(|error| Failure::usage(error.to_string()))
    });
    Ok(Network {
        web: Web::new(made.clone(), search.transpose()?),
        guard: made,
        trusted_guard,
    })
}

/// A guard that says who it is.
pub(crate) fn guard(
    policy: Policy,
    resolver: impl Resolver,
    settings: &Settings,
) -> anyhow::Result<GuardBuilder> {
    let agent = concat!("fastness/", env!("CARGO_PKG_VERSION"));
    let agent = agent.parse().context("the user agent is not a header")?;
    let builder = Guard::builder(policy).resolver(resolver);
    let builder = builder.roots(settings.network.roots.clone());
    Ok(builder.user_agent(agent))
}
