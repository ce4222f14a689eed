//! Each package is made from the dev build, installed without a network, and exercised.

mod exercise;
mod rules;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use testkit::peers::{self, Peer};
use testkit::{Home, Script};

use super::stage::Stage;
use super::{Profile, deb, image, npm, tarball, tool, wheel};
use exercise::{ANSWER, exercise, run};

/// The program that the tests of this workspace are built with.
fn dev_program() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let program = here.parent().unwrap().parent().unwrap().join("fastness");
    assert!(
        program.exists(),
        "{} is missing. Run `cargo build --package fastness` first",
        program.display()
    );
    program
}

/// Packages of one kind, made in a folder of their own.
fn packages(make: super::Maker) -> (TempDir, Vec<PathBuf>) {
    let out = TempDir::with_prefix("fastness-packages-").unwrap();
    let stage = Stage::prepare(&dev_program(), Profile::Dev).unwrap();
    let made = make(&stage, out.path()).unwrap_or_else(|failure| panic!("{failure}"));
    (out, made)
}

/// A home for a program that was installed from a package.
fn home(program: &Path) -> Home {
    assert!(program.exists(), "{} is missing", program.display());
    Home::new(program, Script::says(ANSWER))
}

#[tokio::test]
async fn npm_package_works_offline_without_install_scripts() {
    let (out, made) = packages(npm::make);
    let prefix = out.path().join("prefix");
    let mut install = tool::command("npm", ["install", "--offline", "--ignore-scripts"]);
    install.args(["--no-audit", "--no-fund", "--prefix"]);
    install.arg(&prefix).args(&made);
    run(&mut install);
    let wrapper: Value = manifest(&prefix, "fastness");
    let program: Value = manifest(&prefix, "fastness-linux-x64");
    assert!(wrapper["scripts"].is_null() && program["scripts"].is_null());
    assert_eq!(
        wrapper["optionalDependencies"]["fastness-linux-x64"],
        program["version"]
    );
    assert_eq!(program["libc"][0], "glibc");
    let mut npx = tool::command("npx", ["--offline", "--prefix"]);
    npx.arg(&prefix).args(["fastness", "--version"]);
    assert!(run(&mut npx).starts_with("fastness "));
    exercise(home(&prefix.join("node_modules/.bin/fastness"))).await;
}

fn manifest(prefix: &Path, package: &str) -> Value {
    let path = prefix
        .join("node_modules")
        .join(package)
        .join("package.json");
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn npm_wrapper_names_the_supported_systems() {
    let wrapper = tool::source("deploy/npm/fastness.js");
    let on = |platform: &str, arch: &str| {
        let pretend = format!(
            "Object.defineProperty(process, 'platform', {{value: '{platform}'}}); \
             Object.defineProperty(process, 'arch', {{value: '{arch}'}}); \
             require({:?})",
            wrapper.display().to_string()
        );
        let mut node = tool::command("node", ["-e", &pretend]);
        let output = node.output().expect("`node` is needed");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let elsewhere = on("plan9", "mips");
    assert!(elsewhere.contains("\"plan9 mips\""), "{elsewhere}");
    assert!(elsewhere.contains("Supported: linux x64"), "{elsewhere}");
    let alone = on("linux", "x64");
    assert!(alone.contains("npm install fastness-linux-x64"), "{alone}");
}

#[tokio::test]
async fn wheel_installs_with_pip_and_uv_offline() {
    let (out, made) = packages(wheel::make);
    let prefix = out.path().join("pip");
    let mut pip = tool::command("python3", ["-m", "pip", "install", "--no-index"]);
    pip.args([
        "--no-cache-dir",
        "--root-user-action=ignore",
        "--ignore-installed",
    ]);
    pip.arg("--prefix").arg(&prefix).args(&made);
    run(&mut pip);
    exercise(home(&bin_below(&prefix))).await;

    let uv = peers::ensure(Peer::Uv).join("site/bin/uv");
    let mut uvx = tool::command(&uv.to_string_lossy(), ["tool", "run", "--offline"]);
    uvx.args(["--no-index", "--from"]).arg(&made[0]);
    uvx.args(["fastness", "--version"]);
    uvx.env("UV_CACHE_DIR", out.path().join("cache"));
    assert!(run(&mut uvx).starts_with("fastness "));
}

/// Distributions let pip install into `bin` or `local/bin` of a prefix.
fn bin_below(prefix: &Path) -> PathBuf {
    let local = prefix.join("local/bin/fastness");
    if local.exists() {
        return local;
    }
    prefix.join("bin/fastness")
}

#[tokio::test]
async fn deb_brings_program_unit_manual_and_completions() {
    let (out, made) = packages(deb::make);
    let root = out.path().join("root");
    let dpkg = |arguments: &[&str]| {
        let admin = root.join("var/lib/dpkg");
        std::fs::create_dir_all(root.join("etc")).unwrap();
        std::fs::create_dir_all(admin.join("info")).unwrap();
        std::fs::create_dir_all(admin.join("updates")).unwrap();
        if !admin.join("status").exists() {
            std::fs::write(admin.join("status"), "").unwrap();
        }
        let mut dpkg = tool::command("dpkg", ["--force-not-root,script-chrootless,depends"]);
        dpkg.arg("--log=/dev/null").arg("--root").arg(&root);
        run(dpkg.args(arguments));
    };
    dpkg(&["--install", made[0].to_str().unwrap()]);
    for path in [
        "usr/share/man/man1/fastness.1.gz",
        "usr/share/man/man1/fastness-serve.1.gz",
        "usr/share/bash-completion/completions/fastness",
        "usr/share/zsh/vendor-completions/_fastness",
        "usr/share/fish/vendor_completions.d/fastness.fish",
        "usr/share/doc/fastness/copyright",
    ] {
        assert!(root.join(path).exists(), "{path} is missing");
    }
    let unit = std::fs::read_to_string(root.join("usr/lib/systemd/system/fastness.service"));
    assert!(unit.unwrap().contains("ExecStart=/usr/bin/fastness serve "));
    let users = std::fs::read_to_string(root.join("etc/passwd")).unwrap();
    assert!(users.contains("fastness:"), "{users}");
    exercise(home(&root.join("usr/bin/fastness"))).await;
    dpkg(&["--purge", "fastness"]);
    assert!(!root.join("usr/bin/fastness").exists());
}

#[tokio::test]
async fn tarball_installs_below_a_prefix_and_uninstalls() {
    let (out, made) = packages(tarball::make);
    let folder = unpack(out.path(), &made[0]);
    let prefix = out.path().join("a prefix");
    let script = folder.join("install.sh").display().to_string();
    let install = || {
        let mut install = tool::command("sh", [&script]);
        install.arg("--prefix").arg(&prefix);
        install
    };
    assert!(run(&mut install()).contains("installed "));
    exercise(home(&prefix.join("bin/fastness"))).await;
    run(install().arg("--uninstall"));
    assert_eq!(tool::files_below(&prefix).unwrap(), Vec::<PathBuf>::new());

    let refused = || {
        let refused = install().output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        assert_eq!(tool::files_below(&prefix).unwrap(), Vec::<PathBuf>::new());
        String::from_utf8(refused.stderr).unwrap()
    };
    std::fs::write(folder.join("bin/fastness"), "something else").unwrap();
    let told = refused();
    assert!(told.contains("are not the ones that were packed"), "{told}");
    let text = std::fs::read_to_string(&script).unwrap();
    let newer = text.lines().map(|line| match line {
        line if line.starts_with("GLIBC=") => "GLIBC=2.999\n".to_owned(),
        line => format!("{line}\n"),
    });
    std::fs::write(&script, newer.collect::<String>()).unwrap();
    let told = refused();
    assert!(told.contains("needs glibc 2.999 or newer"), "{told}");
}

fn unpack(out: &Path, archive: &Path) -> PathBuf {
    let mut tar = tool::command("tar", ["--extract", "--file"]);
    run(tar.arg(archive).arg("--directory").arg(out));
    let name = tool::file_name(archive);
    out.join(name.trim_end_matches(".tar.gz"))
}

#[tokio::test]
async fn container_image_runs_as_its_own_user() {
    let (out, made) = packages(image::make);
    let (layout, bundle) = (out.path().join("layout"), out.path().join("bundle"));
    std::fs::create_dir(&layout).unwrap();
    let mut tar = tool::command("tar", ["--extract", "--file"]);
    run(tar.arg(&made[0]).arg("--directory").arg(&layout));
    let image = format!("{}:{}", layout.display(), env!("CARGO_PKG_VERSION"));
    let mut unpack = tool::command("umoci", ["unpack", "--rootless", "--image", &image]);
    run(unpack.arg(&bundle));
    let config = std::fs::read(bundle.join("config.json")).unwrap();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["process"]["args"][0], "fastness");
    assert_eq!(config["process"]["user"]["uid"], 65532);

    let home = home(Path::new("/usr/bin/env"));
    let place = home.workspace().parent().unwrap().to_owned();
    let helper = tool::source("xtask/src/package/tests/contained.py");
    let words = [
        "python3",
        &helper.display().to_string(),
        &bundle.display().to_string(),
        &place.display().to_string(),
    ]
    .map(str::to_owned);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    exercise(home.under(&words).binary_at("/usr/bin/fastness")).await;
}
