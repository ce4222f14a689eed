//! The list of crates that a published program was built from.
//!
//! `cargo auditable` writes it into the program itself, where scanners find it in every package. It
//! is also written beside the packages, for people.

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use serde_json::Value;

use super::tool;
use crate::Failure;

/// Largest list that is read: a hundred times what it takes today.
const LIST_BYTES_MAX: u64 = 4_000_000;

/// Takes the list out of `program`, and fails if there is none or the program is not in it.
pub(crate) fn write(program: &Path, out: &Path) -> Result<PathBuf, Failure> {
    let folder = tempfile::TempDir::with_prefix("fastness-sbom-")
        .map_err(|error| format!("no temporary directory: {error}"))?;
    let section = folder.path().join("section");
    let mut copy = tool::command("objcopy", ["--dump-section"]);
    copy.arg(format!(".dep-v0={}", section.display()));
    copy.arg(program).arg(folder.path().join("program"));
    tool::output(copy)?;
    let packed = std::fs::read(&section).map_err(|_| {
        format!(
            "{} does not list its crates: build it with `cargo auditable`",
            program.display()
        )
    })?;
    let list = unpack(&packed)?;
    let path = out.join(format!(
        "fastness-{}.crates.json",
        env!("CARGO_PKG_VERSION")
    ));
    tool::write(&path, format!("{list:#}\n").as_bytes())?;
    Ok(path)
}

fn unpack(packed: &[u8]) -> Result<Value, Failure> {
    let mut text = String::new();
    let mut reader = ZlibDecoder::new(packed).take(LIST_BYTES_MAX);
    reader
        .read_to_string(&mut text)
        .map_err(|error| format!("the list of crates cannot be unpacked: {error}"))?;
    let list: Value = serde_json::from_str(&text)
        .map_err(|error| format!("the list of crates is not JSON: {error}"))?;
    let packages = list["packages"].as_array().into_iter().flatten();
    let is_root = |package: &Value| package["name"] == "fastness" && package["root"] == true;
    if packages.into_iter().any(is_root) {
        return Ok(list);
    }
    Err("the list of crates does not name `fastness`".to_owned())
}
