//! Why something was refused: the rule, in words for a person, never the address behind a name.

use std::fmt;

use crate::network::Network;

/// A rule said no. Nothing was sent to where the refused address points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Rule 1: this is not a URL that everybody reads in the same way.
    #[error("blocked URL: {0}")]
    Url(UrlFault),
    /// Rule 2: the name is not one of a public host.
    #[error("blocked hostname: {0}")]
    Name(NameFault),
    /// Rule 6: other services than the web answer on this port.
    #[error("blocked port: {0} is not one that web servers use")]
    Port(u16),
    /// Rule 3: the name has no answer that could be judged.
    #[error("blocked hostname: {0}")]
    Resolution(ResolutionFault),
    /// Rule 3: the address in the URL is not public.
    #[error("blocked address: it is {0}")]
    Address(Network),
    /// Rule 3: an address of the name is not public.
    #[error("blocked hostname: resolves to {0}")]
    Answer(Network),
    /// Rule 5: the redirect itself is not followed, wherever it leads.
    #[error("blocked redirect: {0}")]
    Redirect(RedirectFault),
}

/// What is wrong with a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlFault {
    /// It is longer than any server takes.
    TooLong,
    /// It contains a control character.
    ControlCharacter,
    /// It contains a space of any kind.
    Space,
    /// It contains a backslash, which some parsers read as a slash.
    Backslash,
    /// It does not begin with `http://` or `https://`.
    Scheme,
    /// Nothing stands where the host should.
    NoHost,
    /// It contains a user name or password.
    UserInfo,
    /// It does not parse.
    Malformed,
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameFault {
    /// Longer than 253 bytes.
    TooLong,
    /// A label is empty or longer than 63 bytes.
    LabelLength,
    /// Only one label: search domains would decide where it leads.
    SingleLabel,
    /// Characters that no host name has.
    Characters,
    /// The last label is not one of a public domain.
    NotADomain,
    /// `localhost`, `.local`, `.internal` and their like.
    Local,
    /// The name of a metadata service. Never opened.
    Metadata,
}

/// Why there was nothing to judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolutionFault {
    /// The resolver failed.
    Failed,
    /// The resolver knows no address.
    Empty,
    /// The resolver took too long.
    TooSlow,
}

/// Why a redirect was not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectFault {
    /// One more than the limit.
    TooMany,
    /// From https to http.
    Downgrade,
    /// The Location cannot be read, or there are several.
    Location,
}

impl Refusal {
    /// A short name of the rule for logs and programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Url(_) => "url",
            Self::Name(_) => "name",
            Self::Port(_) => "port",
            Self::Resolution(_) => "resolution",
            Self::Address(_) => "address",
            Self::Answer(_) => "answer",
            Self::Redirect(_) => "redirect",
        }
    }
}

impl fmt::Display for UrlFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "it is too long",
            Self::ControlCharacter => "it contains a control character",
            Self::Space => "it contains a space",
            Self::Backslash => "it contains a backslash",
            Self::Scheme => "it does not begin with http:// or https://",
            Self::NoHost => "it names no host",
            Self::UserInfo => "it contains a user name or password",
            Self::Malformed => "it cannot be parsed",
        })
    }
}

impl fmt::Display for NameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLong => "it is longer than 253 bytes",
            Self::LabelLength => "a label is empty or longer than 63 bytes",
            Self::SingleLabel => "it has only one label",
            Self::Characters => "it contains characters that no host name has",
            Self::NotADomain => "it does not end in a domain",
            Self::Local => "it names a host of the local network",
            Self::Metadata => "it names a cloud metadata service",
        })
    }
}

impl fmt::Display for ResolutionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Failed => "it could not be resolved",
            Self::Empty => "it has no address",
            Self::TooSlow => "resolving it took too long",
        })
    }
}

impl fmt::Display for RedirectFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooMany => "there are too many of them",
            Self::Downgrade => "it leads from https to http",
            Self::Location => "its Location cannot be read",
        })
    }
}
