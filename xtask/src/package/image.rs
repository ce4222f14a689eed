//! The container image: an OCI archive with the program on a few packages of Debian, made without a
//! daemon and without root.
//!
//! The base has no package manager. It is unpacked, not installed: a shell and the usual small
//! programs for commands that agents run, the C library, and bubblewrap for the sandbox.

use std::fs;
use std::path::{Path, PathBuf};

use super::stage::{Stage, normalize};
use super::{Profile, tool};
use crate::Failure;

/// What the base consists of: the wanted packages and all that they need to run.
const BASE: &[&str] = &[
    "base-files",
    "bash",
    "bubblewrap",
    "coreutils",
    "findutils",
    "grep",
    "libacl1",
    "libattr1",
    "libc6",
    "libcap2",
    "libgcc-s1",
    "libgmp10",
    "libpcre2-8-0",
    "libselinux1",
    "libtinfo6",
    "sed",
];

/// Packages from before the merge of `/bin` into `/usr/bin` look like those from after it.
const MERGE: &str = r#"set -e; cd "$1"
for name in bin sbin lib lib64; do
    mkdir -p "usr/$name"
    if [ -d "$name" ] && [ ! -L "$name" ]; then cp -a "$name/." "usr/$name/"; rm -rf "$name"; fi
    ln -sfn "usr/$name" "$name"
done
ln -sf bash usr/bin/sh
rm -rf usr/share/man usr/share/locale usr/share/info usr/share/lintian"#;

/// The user inside: not root, and no user of the host.
const USER: &str = "65532:65532";

pub(crate) fn make(stage: &Stage, out: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = stage.workshop("image")?;
    let (root, layout) = (folder.join("root"), folder.join("layout"));
    fs::create_dir_all(&root).map_err(|error| format!("cannot make the base: {error}"))?;
    for package in base_packages(stage.profile())? {
        let extract = ["-x".as_ref(), package.as_os_str(), root.as_os_str()];
        tool::output(tool::command("dpkg-deb", extract))?;
    }
    let merge = [
        "-c".as_ref(),
        MERGE.as_ref(),
        "sh".as_ref(),
        root.as_os_str(),
    ];
    tool::output(tool::command("sh", merge))?;
    add_program(stage, &root)?;
    settle_times(stage, &root)?;
    make_layout(stage, &root, &layout)?;
    let archive = out.join(format!("fastness-{}-linux-amd64.oci.tar", stage.version()));
    normalize(&layout)?;
    stage.archive(&layout, &["blobs", "index.json", "oci-layout"], &archive)?;
    Ok(vec![archive])
}

/// The base's packages as files; a published image takes the newest, tests those that are there.
fn base_packages(profile: Profile) -> Result<Vec<PathBuf>, Failure> {
    let script = tool::source("scripts/packaging.sh");
    let mut download = tool::command(&script.to_string_lossy(), ["base"]);
    if profile == Profile::Release {
        download.arg("--fresh");
    }
    download.args(BASE);
    let folder = String::from_utf8_lossy(&tool::output(download)?).into_owned();
    tool::files_below(Path::new(folder.trim_end()))
}

fn add_program(stage: &Stage, root: &Path) -> Result<(), Failure> {
    let program = root.join("usr/bin/fastness");
    tool::copy(&stage.program(), &program)?;
    tool::set_mode(&program, 0o755)?;
    tool::copy(
        &tool::source("LICENSE"),
        &root.join("usr/share/doc/fastness/copyright"),
    )?;
    tool::write(
        &root.join("etc/passwd"),
        b"root:x:0:0:root:/root:/bin/sh\nfastness:x:65532:65532::/var/lib/fastness:/bin/sh\n",
    )?;
    tool::write(&root.join("etc/group"), b"root:x:0:\nfastness:x:65532:\n")?;
    // Open to whatever user the container runs as; the program keeps its own data to itself.
    for place in ["tmp", "work", "var/lib/fastness"] {
        let place = root.join(place);
        fs::create_dir_all(&place)
            .map_err(|error| format!("cannot make {}: {error}", place.display()))?;
        tool::set_mode(&place, 0o1777)?;
    }
    Ok(())
}

/// Everything in the image has one time, so that the same input gives the same layers.
fn settle_times(stage: &Stage, root: &Path) -> Result<(), Failure> {
    let mut touch = tool::command("find", [root]);
    touch.args(["-depth", "-exec", "touch", "--no-dereference"]);
    touch.args(["--date", &format!("@{}", stage.epoch()), "{}", "+"]);
    tool::output(touch).map(drop)
}

fn make_layout(stage: &Stage, root: &Path, layout: &Path) -> Result<(), Failure> {
    let image = format!("{}:{}", layout.display(), stage.version());
    let mut date = tool::command("date", ["--utc", "+%Y-%m-%dT%H:%M:%SZ", "--date"]);
    date.arg(format!("@{}", stage.epoch()));
    let date = String::from_utf8_lossy(&tool::output(date)?)
        .trim()
        .to_owned();
    let mut insert = tool::command("umoci", ["insert", "--image", &image]);
    insert.args([
        "--history.created",
        &date,
        "--history.created_by",
        "fastness",
    ]);
    insert.args(["--rootless"]).arg(root).arg("/");
    let mut config = tool::command("umoci", ["config", "--image", &image]);
    config.args(["--created", &date, "--history.created", &date]);
    config.args(["--history.created_by", "fastness"]);
    config.args(["--architecture", "amd64", "--os", "linux"]);
    config.args(["--config.user", USER, "--config.workingdir", "/work"]);
    config.args(["--config.entrypoint", "fastness", "--config.cmd", "serve"]);
    config.args(["--config.env", "PATH=/usr/bin:/bin"]);
    config.args(["--config.env", "HOME=/var/lib/fastness"]);
    config.args(["--config.env", "FASTNESS_DATA_DIR=/var/lib/fastness/data"]);
    config.args(["--config.volume", "/var/lib/fastness"]);
    for label in [
        "org.opencontainers.image.title=fastness".to_owned(),
        "org.opencontainers.image.licenses=Apache-2.0".to_owned(),
        format!("org.opencontainers.image.version={}", stage.version()),
        format!(
            "org.opencontainers.image.description={}",
            stage.description()
        ),
    ] {
        config.args(["--config.label", &label]);
    }
    let layout = layout.display().to_string();
    tool::output(tool::command("umoci", ["init", "--layout", &layout]))?;
    tool::output(tool::command("umoci", ["new", "--image", &image]))?;
    tool::output(insert)?;
    tool::output(config)?;
    // Each step left its own manifest behind.
    tool::output(tool::command("umoci", ["gc", "--layout", &layout]))?;
    Ok(())
}
