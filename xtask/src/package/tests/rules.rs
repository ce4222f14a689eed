//! What holds of packages whatever is in them: the same bytes every time, and what may be published.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::stage::{BASELINE, Glibc, Stage};
use super::super::{PACKAGES, Profile, check_paths, deb, sbom, tool, wheel};
use super::{dev_program, packages};

#[test]
fn same_input_gives_the_same_packages() {
    // A small program: what is compared are the wrappings.
    let make_all = || {
        let out = TempDir::with_prefix("fastness-packages-").unwrap();
        let stage = Stage::lay_out(Path::new("/bin/true"), Profile::Dev).unwrap();
        stage.write_pages(&dev_program()).unwrap();
        let made: Vec<PathBuf> = PACKAGES
            .iter()
            .flat_map(|(_, make)| make(&stage, out.path()).unwrap())
            .collect();
        tool::checksums(out.path(), &made).unwrap()
    };
    let sums = make_all();
    assert_eq!(sums.lines().count(), 6, "{sums}");
    assert_eq!(sums, make_all());
}

#[test]
fn newest_glibc_symbol_decides() {
    let symbols = "\
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.2.5) free
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.34) pthread_create
0000000000000000      DF *UND*  0000000000000000 (GLIBC_2.9) pipe2
0000000000000000      DF *UND*  0000000000000000 (GCC_3.3) _Unwind_Backtrace";
    let newest = Glibc::newest(symbols).unwrap();
    assert_eq!(newest.to_string(), "2.34");
    assert!(newest.check_baseline().is_err());
    assert!(BASELINE.check_baseline().is_ok());
    assert_eq!(Glibc::newest("statically linked"), None);
}

#[test]
fn wheel_and_deb_state_the_glibc_of_the_program() {
    let glibc = Stage::prepare(&dev_program(), Profile::Dev)
        .unwrap()
        .glibc();
    let (_out, made) = packages(wheel::make);
    let tag = format!("-manylinux_{}_{}_x86_64.whl", glibc.major, glibc.minor);
    assert!(tool::file_name(&made[0]).ends_with(&tag), "{made:?}");
    let (_out, made) = packages(deb::make);
    let field = ["--field", made[0].to_str().unwrap(), "Depends"];
    let depends = tool::output(tool::command("dpkg-deb", field)).unwrap();
    let depends = String::from_utf8(depends).unwrap();
    assert!(
        depends.contains(&format!("libc6 (>= {glibc})")),
        "{depends}"
    );
}

#[test]
fn paths_of_the_building_machine_are_found() {
    let paths = ["/opt/builder/src".to_owned()];
    let found = check_paths(b"..\0/opt/builder/src/lib.rs\0..", &paths);
    assert_eq!(
        found,
        Err("the program contains the path /opt/builder/src".to_owned())
    );
    assert_eq!(check_paths(b"/crates/serde/src/lib.rs", &paths), Ok(()));
}

#[test]
fn program_without_a_list_of_crates_is_not_published() {
    let out = TempDir::with_prefix("fastness-packages-").unwrap();
    let refused = sbom::write(&dev_program(), out.path());
    let refused = refused.expect_err("a dev build lists nothing");
    assert!(
        refused.contains("dep-v0") || refused.contains("cargo auditable"),
        "{refused}"
    );
}

#[test]
fn missing_tool_is_named_with_its_package() {
    let mut objdump = tool::command("objdump", ["--version"]);
    objdump.env("PATH", "/nowhere");
    let failure = tool::output(objdump).expect_err("there is nothing in that PATH");
    assert!(
        failure.contains("`objdump` is not installed") && failure.contains("install binutils"),
        "{failure}"
    );
}
