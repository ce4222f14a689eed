//! The Debian package: the program, its manual pages, completions and the unit for systemd.

use std::path::{Path, PathBuf};

use super::stage::{Stage, normalize};
use super::tool;
use crate::Failure;

pub(crate) fn make(stage: &Stage, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let root = stage.workshop("deb")?;
    for file in tool::files_below(&stage.prefix())? {
        let name = file.strip_prefix(stage.prefix()).unwrap_or(&file);
        tool::copy(&file, &root.join("usr").join(debian_place(name)))?;
    }
    let unit = tool::source_text("deploy/fastness.service")?;
    tool::write(
        &root.join("usr/lib/systemd/system/fastness.service"),
        unit.replace("/usr/local/bin/", "/usr/bin/").as_bytes(),
    )?;
    tool::copy(
        &tool::source("deploy/deb/fastness.sysusers"),
        &root.join("usr/lib/sysusers.d/fastness.conf"),
    )?;
    let control = root.join("DEBIAN");
    for script in ["postinst", "prerm", "postrm"] {
        let source = tool::source("deploy/deb").join(script);
        tool::copy(&source, &control.join(script))?;
        tool::set_mode(&control.join(script), 0o755)?;
    }
    let control_text = control_text(stage, &root)?;
    tool::write(&control.join("control"), control_text.as_bytes())?;
    normalize(&root)?;
    let package = out.join(format!("fastness_{}-1_amd64.deb", stage.version()));
    let mut build = tool::command("dpkg-deb", ["--build", "--root-owner-group"]);
    build.args(stage.deb_compression()).arg(&root).arg(&package);
    // dpkg-deb writes no newer time than this, and in a fixed order.
    build.env("SOURCE_DATE_EPOCH", stage.epoch().to_string());
    tool::output(build)?;
    Ok(vec![package])
}

/// Debian keeps completions of zsh and the licence elsewhere than a prefix of one's own.
fn debian_place(name: &Path) -> PathBuf {
    let name = name.to_string_lossy();
    PathBuf::from(match name.as_ref() {
        "share/zsh/site-functions/_fastness" => "share/zsh/vendor-completions/_fastness",
        "share/doc/fastness/LICENSE" => "share/doc/fastness/copyright",
        other => other,
    })
}

fn control_text(stage: &Stage, root: &Path) -> Result<String, Failure> {
    let mut bytes = 0;
    for file in tool::files_below(root)? {
        bytes += std::fs::metadata(&file).map_or(0, |metadata| metadata.len());
    }
    Ok(format!(
        "Package: fastness
Version: {}-1
Architecture: amd64
Maintainer: The Fastness developers <fastness@localhost>
Installed-Size: {}
Depends: libc6 (>= {}), libgcc-s1
Recommends: bubblewrap
Suggests: git
Section: devel
Priority: optional
Description: agent server with durable, shared AI sessions
 Editors, terminals and scripts connect to Fastness over the Agent Client
 Protocol, by stdio, WebSocket or HTTP, and work with AI sessions that outlive
 any connection, crash or restart.
 .
 The package has a unit for systemd, which is not started by itself.
",
        stage.version(),
        bytes.div_ceil(1024),
        stage.glibc()
    ))
}
