//! Whether the model's server answers by the way that a call would take: proxy, TLS, HTTP. The request
//! has no key and asks for no answer of a model, so it costs nothing.

use std::time::Duration;

use llm::{ReachError, ReachReport};

use super::{Check, State};
use crate::settings::Settings;

/// How long a server may take to answer: a few round trips around the world, also through a proxy.
const WAIT: Duration = Duration::from_secs(5);

/// A line about the server of the model that `label` names, if it has one, and one for each variable
/// that names a proxy which cannot be used.
pub(super) async fn checks(label: &str, settings: &Settings) -> Vec<Check> {
    let unusable = settings.network.unusable_proxies.iter().map(|unusable| {
        let finding = format!("{} is not an HTTP proxy, and not used", unusable.variable);
        let advice = "write it as http://host:port; SOCKS is not supported";
        Check::new("proxy", State::Noted, finding).advice(advice)
    });
    let mut checks: Vec<Check> = unusable.collect();
    match llm::reach(settings.model.clone(), label, WAIT).await {
        Ok(report) => checks.extend(report.map(|report| of(&report))),
        Err(error) => checks.push(Check::new("model server", State::Broken, error.to_string())),
    }
    checks
}

fn of(report: &ReachReport) -> Check {
    let mut way = Vec::new();
    if let Some((proxy, source)) = &report.proxy {
        way.push(format!("through the proxy {proxy} of {source}"));
    }
    if let Some(roots) = &report.roots {
        way.push(format!("trusting {roots}"));
    }
    let way = match way.is_empty() {
        true => String::new(),
        false => format!(" ({})", way.join(", ")),
    };
    let check = |state, what: &str| {
        let finding = format!("{} {what}{way}", report.server);
        Check::new("model server", state, finding)
    };
    match report.outcome {
        Ok(status) if report.proxy.is_some() && matches!(status, 502..=504) => {
            let what = format!("is not reached by the proxy (status {status})");
            check(State::Broken, &what).advice("ask the operator of the proxy")
        }
        Ok(_) => check(State::Fine, "answers"),
        Err(error) => check(State::Broken, &error.to_string()).advice(advice(error, report)),
    }
}

fn advice(error: ReachError, report: &ReachReport) -> String {
    let variable = report.variable;
    match (error, &report.proxy) {
        (ReachError::ProxyLogin, Some((_, source))) => {
            format!(
                "write the user name and password into {source}: http://USER:PASSWORD@HOST:PORT"
            )
        }
        (ReachError::Untrusted, _) => {
            "add your company's certificate authority to the system's store, or name it with \
             SSL_CERT_FILE or `ca_file` under [models]"
                .to_owned()
        }
        (_, Some((_, source))) => {
            format!("does {source} name the right proxy, and is {variable} right?")
        }
        (_, None) => format!(
            "is it running, and is {variable} right? If the network needs a proxy, set HTTPS_PROXY \
             or `proxy` under [network]"
        ),
    }
}
