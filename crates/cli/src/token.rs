//! `fastness token`: identities for other clients.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use auth::{NamedToken, NamedTokens, NewToken, Scope};
use domain::clock::Timestamp;

use crate::args::{TokenAction, TokenArgs};
use crate::engine;
use crate::render::{self, Exit, Palette};
use crate::sessions::find;
use crate::settings::Settings;

/// Creates, lists or revokes named tokens in the data directory. A running server sees it at once.
///
/// # Errors
/// If the tokens cannot be read or written.
pub(crate) fn run(args: &TokenArgs, settings: &Settings) -> anyhow::Result<ExitCode> {
    // Makes the data directory, private as it must be.
    let store = engine::open_store(settings)?;
    let tokens = NamedTokens::of(&settings.data_dir);
    let now = Timestamp::now();
    match &args.action {
        TokenAction::Create {
            name,
            scope,
            session,
            expires,
        } => {
            let session = session.as_deref();
            let session = session.map(|text| match text.parse() {
                Ok(id) => Ok(id),
                Err(_) => find::session(Some(&store), text).map(|(_, id)| id),
            });
            let new = NewToken {
                name: name.clone(),
                scope: *scope,
                session: session.transpose()?,
                expires_at: expires.map(|time| now.0 + time.as_secs_f64()),
            };
            let (_, secret) = tokens.create(new, now).context("the token was not made")?;
            let mut out = render::stdout();
            let printed = writeln!(out, "{}", secret.reveal()).and_then(|()| out.flush());
            if let Err(error) = printed {
                // The secret was never shown, so the token cannot be used.
                tokens.revoke(name).ok();
                return Err(error.into());
            }
        }
        TokenAction::List => {
            let all = tokens.all().context("the tokens cannot be read")?;
            let table = table(&all, now, Palette::stdout(&settings.environment));
            render::stdout().write_all(table.as_bytes())?;
        }
        TokenAction::Revoke { name } => {
            tokens
                .revoke(name)
                .with_context(|| format!("`{name}` was not revoked"))?;
        }
    }
    Ok(Exit::Success.into())
}

/// The tokens as an aligned table.
fn table(tokens: &[NamedToken], now: Timestamp, palette: Palette) -> String {
    if tokens.is_empty() {
        return render::advise("no named tokens; `fastness token create NAME` makes one\n");
    }
    let name_width = tokens
        .iter()
        .map(|token| token.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(4);
    let mut table = palette.bold(&format!(
        "{:name_width$}  {:7}  {:24}  session",
        "name", "scope", "expires"
    ));
    table.push('\n');
    for token in tokens {
        let scope = match token.scope {
            Scope::Control => "control",
            Scope::Observe => "observe",
        };
        let expires = match token.expires_at {
            None => "never".to_owned(),
            Some(_) if token.has_expired(now) => "expired".to_owned(),
            Some(end) => Timestamp(end).to_rfc3339(),
        };
        let session = token
            .session
            .map_or_else(|| "any".to_owned(), |session| session.to_string());
        table.push_str(&format!(
            "{:name_width$}  {scope:7}  {expires:24}  {session}\n",
            token.name
        ));
    }
    table
}
