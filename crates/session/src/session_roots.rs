//! Which directories a session works in: checked when it is made, and found again, without
//! following links, when it comes back from its journal (ADR 0033).

use std::path::Path;
use std::sync::Arc;

use agent::{PathError, Root, RootBase, Roots, Shell};
use auth::Principal;
use domain::PrincipalId;

use crate::handle::AttachError;
use crate::state::SessionState;

/// The directory at `path` for a new session of `principal`: anywhere for the user at this machine,
/// beneath `base` for guests. Blocks.
///
/// # Errors
/// If it lies outside of what the principal may use.
pub(crate) fn find(
    principal: &Principal,
    base: Option<&RootBase>,
    path: &str,
) -> Result<Root, PathError> {
    match (principal.is_local(), base) {
        (true, _) => Ok(Root::find(path)),
        (false, Some(base)) => base.find(path),
        (false, None) => Err(PathError::Outside),
    }
}

/// The directories of a session that comes back from its journal; the first is the working
/// directory. What cannot be used any more stays in the list and refuses every use. Blocks.
pub(crate) fn find_again(state: &SessionState, base: Option<&RootBase>) -> Arc<[Root]> {
    let is_local = *state.owner() == PrincipalId::local();
    let given = std::iter::once(state.cwd())
        .chain(state.additional_directories().iter().map(|path| &**path));
    let found = given.enumerate().map(|(number, path)| {
        let path = Path::new(path);
        let real = state.real_directories().get(number).map(Path::new);
        match (is_local, real, base) {
            (true, Some(real), _) => Root::find_again(path, real),
            (true, None, _) => Root::find_unrecorded(path),
            (false, real, Some(base)) => {
                let found = base.find_again(path, real);
                found.unwrap_or_else(|_| Root::refused(path))
            }
            (false, _, None) => Root::refused(path),
        }
    });
    found.collect()
}

/// Whether a session can work in `roots`: where they hold the data directory, only a sandbox keeps
/// its commands from the server's tokens and the journals of others.
///
/// # Errors
/// If there is none.
pub(crate) async fn check_safe(shell: Option<&Shell>, roots: &Roots) -> Result<(), AttachError> {
    match shell {
        Some(shell) if !shell.can_work_in(roots).await => Err(AttachError::HoldsDataDirectory),
        Some(_) | None => Ok(()),
    }
}

/// What the journal keeps of `roots` besides their names: where they lie. Nothing if one of them
/// has no name in Unicode.
pub(crate) fn real_directories(roots: &[Root]) -> Vec<String> {
    let real = roots
        .iter()
        .map(|root| Some(root.real().to_str()?.to_owned()));
    real.collect::<Option<_>>().unwrap_or_default()
}

/// What the journal calls `roots`: as they were given.
pub(crate) fn names(roots: &[Root]) -> Vec<String> {
    let given = roots.iter().map(|root| root.path().to_string_lossy());
    given.map(Into::into).collect()
}
