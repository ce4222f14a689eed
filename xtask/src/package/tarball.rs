//! The archive with `install.sh`, for systems without a package of their own.

use std::path::{Path, PathBuf};

use super::{stage::Stage, tool};
use crate::Failure;

pub(crate) fn make(stage: &Stage, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = format!("fastness-{}-x86_64-linux-gnu", stage.version());
    let folder = stage.workshop("tarball")?;
    let root = folder.join(&name);
    for file in tool::files_below(&stage.prefix())? {
        let place = file.strip_prefix(stage.prefix()).unwrap_or(&file);
        tool::copy(&file, &root.join(place))?;
    }
    tool::copy(
        &tool::source("deploy/fastness.service"),
        &root.join("share/doc/fastness/fastness.service"),
    )?;
    let script = tool::source_text("deploy/install.sh")?
        .replace("@SYSTEM@", "Linux")
        .replace("@MACHINE@", "x86_64")
        .replace("@GLIBC@", &stage.glibc().to_string());
    let install = root.join("install.sh");
    tool::write(&install, script.as_bytes())?;
    tool::set_mode(&install, 0o755)?;
    let sums = tool::checksums(&root, &tool::files_below(&root)?)?;
    tool::write(&root.join("SHA256SUMS"), sums.as_bytes())?;
    let archive = out.join(format!("{name}.tar.gz"));
    stage.pack(&folder, &name, &archive)?;
    Ok(vec![archive])
}
