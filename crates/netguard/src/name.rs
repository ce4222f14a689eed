//! Rules over names alone, before anybody is asked what they resolve to.

use crate::refusal::NameFault;

/// Longest name that DNS carries, without the last dot.
const NAME_BYTES_MAX: usize = 253;

/// Longest label that DNS carries.
const LABEL_BYTES_MAX: usize = 63;

/// Suffixes that mean "somewhere here": special-use names, and what RFC 6762 (appendix G) lists as
/// private domains. None of them is or will be a public one.
const LOCAL: &[&str] = &[
    "localhost",
    "local",
    "localdomain",
    "internal",
    "home.arpa",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
];

/// Names by which clouds reach their metadata services.
const METADATA: &[&str] = &[
    "metadata.google.internal",
    "metadata.goog",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
];

/// The canonical form of what the URL parser gives: lower case, without one last dot.
pub(crate) fn canonical(name: &str) -> String {
    let name = name.strip_suffix('.').unwrap_or(name);
    name.to_ascii_lowercase()
}

/// What no exception excuses: a name that DNS could not carry or a resolver might guess at.
///
/// # Errors
/// The rule that the name breaks.
pub(crate) fn check_form(name: &str) -> Result<(), NameFault> {
    if name.len() > NAME_BYTES_MAX {
        return Err(NameFault::TooLong);
    }
    let is_label = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    if !name.split('.').all(is_label) {
        return Err(NameFault::LabelLength);
    }
    let is_known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !name
        .bytes()
        .all(|byte| is_known(byte) || b"-_.".contains(&byte))
    {
        return Err(NameFault::Characters);
    }
    if METADATA.contains(&name) {
        return Err(NameFault::Metadata);
    }
    // Every top-level domain is letters only, or an encoded one. Anything else could be read as
    // the last part of an address by a resolver that is kinder than the URL parser.
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_letters = last.bytes().all(|byte| byte.is_ascii_lowercase());
    if name.contains('.') && !is_letters && !last.starts_with("xn--") {
        return Err(NameFault::NotADomain);
    }
    Ok(())
}

/// Whether a well-formed name is one of a public host.
///
/// # Errors
/// The rule that the name breaks.
pub(crate) fn check_public(name: &str) -> Result<(), NameFault> {
    let is_local = |suffix: &&str| {
        let before = name.strip_suffix(*suffix);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    };
    if LOCAL.iter().any(is_local) {
        return Err(NameFault::Local);
    }
    if !name.contains('.') {
        return Err(NameFault::SingleLabel);
    }
    Ok(())
}
