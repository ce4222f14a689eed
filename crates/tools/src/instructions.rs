//! What a project and a person tell every agent: `AGENTS.md` and `CLAUDE.md`.

use std::path::PathBuf;
use std::sync::Arc;

use domain::limits::{INSTRUCTION_BYTES_MAX, INSTRUCTIONS_BYTES_MAX};

use crate::builtin::one_line;
use crate::roots::{PathError, Roots};
use crate::stamps::Stamps;

/// The instructions that a session has.
#[derive(Clone, Debug, Default)]
pub struct Instructions {
    /// In the order in which the model reads them: the nearest last, as the last word counts.
    pub files: Vec<InstructionFile>,
    /// What was left out, and why.
    pub problems: Vec<String>,
}

/// One file of instructions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstructionFile {
    /// Where it is.
    pub path: String,
    /// What it says, as far as it is used.
    pub text: String,
    /// There is more in the file.
    pub is_cut: bool,
    /// The whole file's size.
    pub bytes: u64,
}

impl Instructions {
    /// Reads `candidates`, each beneath its roots, in this order. One that is another by a second
    /// name, or says the same, counts once. Blocks.
    #[must_use]
    pub fn gather(candidates: &[(PathBuf, Arc<Roots>)], stamps: &mut Stamps) -> Self {
        let mut found = Self::default();
        let mut identities = Vec::new();
        let mut room = INSTRUCTIONS_BYTES_MAX;
        // From the end, so that what is nearest is never what there is no room for.
        for (path, roots) in candidates.iter().rev() {
            stamps.note(path.clone());
            let Some(path) = path.to_str() else { continue };
            let read = match roots.read_text(path, INSTRUCTION_BYTES_MAX.min(room)) {
                Ok(read) => read,
                Err(PathError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                Err(error) => {
                    found.problems.push(one_line(&format!("{path}: {error}")));
                    continue;
                }
            };
            let is_known = identities.contains(&read.identity)
                || found.files.iter().any(|known| known.text == read.text);
            if is_known || read.text.trim().is_empty() && !read.is_cut {
                continue;
            }
            if read.is_cut {
                let problem = format!(
                    "{path}: only {} of {} bytes are used",
                    read.text.len(),
                    read.bytes
                );
                found.problems.push(one_line(&problem));
            }
            identities.push(read.identity);
            room -= read.text.len().min(room);
            found.files.push(InstructionFile {
                path: path.to_owned(),
                text: read.text,
                is_cut: read.is_cut,
                bytes: read.bytes,
            });
        }
        found.files.reverse();
        found
    }
}

#[cfg(test)]
mod tests;
