//! What is attached to a file stays with it when it is replaced.

use std::path::Path;

use domain::event::ToolStatus;
use rustix::fs::{XattrFlags, getxattr, setxattr};
use serde_json::json;

use super::{run, workspace};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

/// An access list: the owner may write, `user` may read, everybody else nothing.
fn access_list(user: u32) -> Vec<u8> {
    const NOBODY: u32 = u32::MAX;
    let entries: [(u16, u16, u32); 5] = [
        (0x01, 6, NOBODY),
        (0x02, 4, user),
        (0x04, 0, NOBODY),
        (0x10, 4, NOBODY),
        (0x20, 0, NOBODY),
    ];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0; 1024];
    let count = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(count);
    Some(value)
}

/// Attaches something; says whether the disk of tests can do that.
fn attach(path: &Path, name: &str, value: &[u8]) -> bool {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Ok(()) => true,
        Err(rustix::io::Errno::NOTSUP) => false,
        Err(error) => panic!("{name}: {error}"),
    }
}

fn write(root: &Path) {
    let written = run(root, "write", json!({"path": "a.txt", "content": "new"}));
    assert_eq!(written.status, ToolStatus::Completed, "{}", written.text);
    assert_eq!(std::fs::read_to_string(root.join("a.txt")).unwrap(), "new");
}

#[test]
fn f_38_a_write_keeps_attributes_and_the_access_list() {
    let workspace = workspace();
    let path = workspace.path().join("a.txt");
    let (list, large) = (access_list(65_534), vec![7; 1_000]);
    if !(attach(&path, "user.note", b"mine") && attach(&path, ACCESS, &list)) {
        return;
    }
    attach(&path, "user.large", &large);
    write(workspace.path());
    assert_eq!(attribute(&path, "user.note").as_deref(), Some(&b"mine"[..]));
    assert_eq!(attribute(&path, "user.large"), Some(large));
    assert_eq!(attribute(&path, ACCESS), Some(list));
}

#[test]
fn f_38_a_write_opens_no_file_to_those_whom_its_directory_would_let_in() {
    let workspace = workspace();
    let path = workspace.path().join("a.txt");
    if !attach(workspace.path(), DEFAULT, &access_list(65_534)) {
        return;
    }
    assert_eq!(attribute(&path, ACCESS), None, "it was there before");
    write(workspace.path());
    assert_eq!(attribute(&path, ACCESS), None);
}
