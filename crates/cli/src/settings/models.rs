//! Which model answers, where it is, and with what key.

use std::path::PathBuf;

use domain::Limits;
use llm::{Addresses, Key, ModelSettings};

use super::file::{self, ConfigFile};
use super::{Environment, NetworkSettings};
use crate::keys::{self, KeyProvider, KeySource};
use crate::render::Failure;

/// Puts together what was said about models; `flag` is `--model`.
///
/// # Errors
/// If a value cannot be used.
pub(super) fn resolve(
    flag: Option<&str>,
    environment: &Environment,
    file: &ConfigFile,
    limits: &Limits,
    network: &NetworkSettings,
    keys: &ModelKeys,
) -> anyhow::Result<ModelSettings> {
    let set = &file.settings().models;
    let addresses = addresses(environment).or(&set.addresses());
    let in_file = || format!("default under [models] in {}", file.path().display());
    let spec = flag.map(|spec| (spec, "--model".to_owned()));
    let spec = spec.or_else(|| {
        let variable = "FASTNESS_MODEL";
        Some((environment.value(variable)?, variable.to_owned()))
    });
    let spec = spec.or_else(|| Some((set.default.as_deref()?, in_file())));
    let (spec, spec_from) = spec.unzip();
    Ok(ModelSettings {
        spec: spec.map(str::to_owned),
        spec_from,
        anthropic_key: keys.anthropic.clone(),
        anthropic_base: addresses.anthropic,
        openai_key: keys.openai.clone(),
        openai_base: addresses.openai,
        ollama_host: addresses.ollama,
        context_window: context_window(environment, file)?,
        roots: network.roots_with(ca_file(environment, file)?),
        proxies: network.proxies.clone(),
        limits: limits.clone(),
    })
}

/// The API keys that there are.
#[derive(Default)]
pub(super) struct ModelKeys {
    anthropic: Option<Key>,
    openai: Option<Key>,
    pub(super) report: KeyReport,
}

/// Where API keys come from.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyReport {
    /// The providers that have a key.
    pub(crate) found: Vec<(KeyProvider, KeySource)>,
    /// A stored key that cannot be used; commands that start the engine end with it.
    pub(crate) problem: Option<String>,
}

/// The key of each provider: that of its variable, else the stored one.
pub(super) fn keys(environment: &Environment) -> ModelKeys {
    let mut all = ModelKeys::default();
    let config_dir = file::directory(environment);
    for provider in KeyProvider::ALL {
        let variable = provider.variable();
        let found = match (environment.value(variable), &config_dir) {
            (Some(key), _) => Some((key.to_owned(), KeySource::Variable(variable))),
            (None, None) => None,
            (None, Some(config_dir)) => match keys::read(config_dir, provider) {
                Ok(stored) => stored.map(|(key, path)| (key, KeySource::File(path))),
                Err(error) => {
                    all.report.problem = Some(error.to_string());
                    None
                }
            },
        };
        let key = found.map(|(key, source)| {
            let reason = source.reason();
            all.report.found.push((provider, source));
            Key {
                secret: llm::Secret::new(key),
                source: reason,
            }
        });
        match provider {
            KeyProvider::Anthropic => all.anthropic = key,
            KeyProvider::Openai => all.openai = key,
        }
    }
    all
}

/// Where models are by the environment.
pub(super) fn addresses(environment: &Environment) -> Addresses {
    let value = |name| environment.value(name).map(str::to_owned);
    Addresses {
        anthropic: value("ANTHROPIC_BASE_URL"),
        openai: value("OPENAI_BASE_URL"),
        ollama: value("OLLAMA_HOST"),
    }
}

fn context_window(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<u64>> {
    let variable = "FASTNESS_MODELS_CONTEXT_WINDOW";
    let is_usable = |tokens: &u64| *tokens > 0;
    if let Some(text) = environment.value(variable) {
        let tokens = text.trim().parse().ok().filter(is_usable);
        let wrong = || Failure::usage(format!("{variable} takes a number of tokens, not `{text}`"));
        return Ok(Some(tokens.ok_or_else(wrong)?));
    }
    let Some(value) = file.value("models", "context_window") else {
        return Ok(None);
    };
    let tokens = value
        .as_integer()
        .and_then(|tokens| u64::try_from(tokens).ok());
    let wrong = || file.wrong("models.context_window is a number of tokens");
    Ok(Some(tokens.filter(is_usable).ok_or_else(wrong)?))
}

/// The file of certificate authorities for models.
fn ca_file(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<PathBuf>> {
    let own = match environment.value("FASTNESS_MODELS_CA_FILE") {
        Some(own) => Some(own),
        None => file.text("models", "ca_file")?,
    };
    Ok(own.map(|own| environment.current_dir.join(own)))
}
