//! Which model answers, where it is, and with what key.

use std::path::PathBuf;

use domain::Limits;
use llm::{Addresses, ModelSettings};

use super::Environment;
use super::file::ConfigFile;
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
) -> anyhow::Result<ModelSettings> {
    let set = &file.settings().models;
    let addresses = addresses(environment).or(&set.addresses());
    let key = |name| environment.value(name).map(llm::Secret::new);
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
        anthropic_key: key("ANTHROPIC_API_KEY"),
        anthropic_base: addresses.anthropic,
        openai_key: key("OPENAI_API_KEY"),
        openai_base: addresses.openai,
        ollama_host: addresses.ollama,
        context_window: context_window(environment, file)?,
        ca_file: ca_file(environment, file)?,
        limits: limits.clone(),
    })
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

/// The file of certificate authorities: ours, else that of `SSL_CERT_FILE`, which other programs
/// read too and which often names a file that is not there.
fn ca_file(environment: &Environment, file: &ConfigFile) -> anyhow::Result<Option<PathBuf>> {
    let own = match environment.value("FASTNESS_MODELS_CA_FILE") {
        Some(own) => Some(own),
        None => file.text("models", "ca_file")?,
    };
    let absolute = |path: &str| environment.current_dir.join(path);
    if let Some(own) = own {
        return Ok(Some(absolute(own)));
    }
    let shared = environment.value("SSL_CERT_FILE").map(absolute);
    Ok(shared.filter(|path| path.is_file()))
}
