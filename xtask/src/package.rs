//! `cargo xtask package`: what people install without a compiler.
//!
//! One program is built once ([`build`]), staged once ([`Stage`]), and every package is a wrapping of
//! those same bytes. `docs/guides/install.md` says how each is installed; ADR 0042 says why the
//! wrappings are written here.

mod build;
mod deb;
mod image;
mod npm;
mod sbom;
mod stage;
mod tarball;
#[cfg(test)]
mod tests;
mod tool;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use crate::Failure;
use stage::Stage;

/// How the program was built, and therefore how much is asked of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Quick to build and to compress; runs on this machine. For tests.
    Dev,
    /// What is published: runs on old systems, lists what it was built from.
    Release,
}

/// What a package is made by: its name for `--only`, and its maker.
type Maker = fn(&Stage, &Path) -> Result<Vec<PathBuf>, Failure>;

const PACKAGES: &[(&str, Maker)] = &[
    ("npm", npm::make),
    ("wheel", wheel::make),
    ("deb", deb::make),
    ("tarball", tarball::make),
    ("image", image::make),
];

/// The largest program that may be published: it is downloaded with every package.
const PROGRAM_BYTES_MAX: u64 = 28_000_000;

/// `cargo xtask package --out DIR [--release | --dev] [--bin PATH] [--only WORD]`
pub(crate) fn main(arguments: &[String]) -> Result<(), Failure> {
    let options = Options::parse(arguments)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build::build(options.profile)?,
    };
    let stage = Stage::prepare(&program, options.profile)?;
    let mut made = Vec::new();
    fs::create_dir_all(&options.out)
        .map_err(|error| format!("cannot make {}: {error}", options.out.display()))?;
    if options.profile == Profile::Release {
        check_release(&program, &stage)?;
        made.push(sbom::write(&program, &options.out)?);
    }
    for (name, make) in PACKAGES {
        if options
            .only
            .as_ref()
            .is_none_or(|word| name.contains(word.as_str()))
        {
            made.extend(make(&stage, &options.out)?);
        }
    }
    let sums = tool::checksums(&options.out, &made)?;
    tool::write(&options.out.join("SHA256SUMS"), sums.as_bytes())?;
    println!("fastness: glibc {}", stage.glibc());
    for path in &made {
        let bytes = fs::metadata(path).map_or(0, |metadata| metadata.len());
        println!("{:>12} {}", bytes, tool::file_name(path));
    }
    Ok(())
}

struct Options {
    out: PathBuf,
    profile: Profile,
    program: Option<PathBuf>,
    only: Option<String>,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let (mut out, mut program, mut only) = (None, None, None);
        let mut profile = Profile::Release;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut value = || {
                let value = rest.next().cloned();
                value.ok_or_else(|| format!("`{argument}` needs a value"))
            };
            match argument.as_str() {
                "--release" => profile = Profile::Release,
                "--dev" => profile = Profile::Dev,
                "--out" => out = Some(PathBuf::from(value()?)),
                "--bin" => program = Some(PathBuf::from(value()?)),
                "--only" => only = Some(value()?),
                other => return Err(format!("package: unknown argument `{other}`")),
            }
        }
        let out = out.ok_or("package: say where to, with --out DIR")?;
        Ok(Self {
            out,
            profile,
            program,
            only,
        })
    }
}

/// What may be published: small, for old systems too, and without a word about this machine.
fn check_release(program: &Path, stage: &Stage) -> Result<(), Failure> {
    let bytes =
        fs::read(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    if bytes.len() as u64 > PROGRAM_BYTES_MAX {
        return Err(format!(
            "the program has {} bytes; at most {PROGRAM_BYTES_MAX}",
            bytes.len()
        ));
    }
    stage.glibc().check_baseline()?;
    check_paths(&bytes, &build::machine_paths()?)
}

/// No path of the machine that built the program stands in it.
fn check_paths(program: &[u8], paths: &[String]) -> Result<(), Failure> {
    let holds = |path: &&String| {
        let mut windows = program.windows(path.len());
        windows.any(|window| window == path.as_bytes())
    };
    match paths.iter().find(holds) {
        Some(path) => Err(format!("the program contains the path {path}")),
        None => Ok(()),
    }
}
