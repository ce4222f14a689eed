//! Files as people write them, with a server added and removed.

use super::{Server, add, has, remove};

fn server() -> Server {
    let mut server = Server::default();
    server.text("command", "z");
    server.list("args", &["a b".to_owned(), "\"q\"".to_owned()]);
    server
}

#[test]
fn added_server_is_removed_without_a_trace() {
    for file in [
        "",
        "# mine\n[limits]\nsteps_max = 5 # few\n",
        "# mine\n\n[mcp.files] # files\ncommand = \"x\"\n[mcp.files.env]\nA = \"[mcp.new]\"\n\n# the end\n",
        "[mcp]\n[mcp.a]\ncommand = \"x\"\n\n[permissions]\nallow = [\n  # read\n  \"read\",\n]\n",
        "mcp.a.command = \"x\"\nmodels.default = \"offline\"\n",
        "mcp = { a = { command = \"x\" } }\n",
        "[models]\r\ndefault = \"offline\"\r\n",
        "\u{feff}[models]\ndefault = \"offline\"\n",
        "[[hooks]]\nevent = \"Stop\"\ncommand = \'\'\'\n[mcp.new]\ncommand = \"z\"\n\'\'\'\n",
    ] {
        assert!(!has(file, "new").unwrap(), "{file}");
        let added = add(file, "new", &server()).unwrap();
        assert!(has(&added, "new").unwrap(), "{added}");
        assert_eq!(remove(&added, "new").unwrap(), file, "{added}");
    }
}

#[test]
fn text_in_strings_and_comments_is_not_a_section() {
    let file = "prompt = \"\"\"\n[mcp.files]\ncommand = \"not this\"\n\"\"\"\n\n# [mcp.files]\n\
                [mcp.files]\ncommand = \"x\"\n\n[mcp.other]\ncommand = \'\'\'\n[mcp.files]\n\'\'\'\n";
    let removed = remove(file, "files").unwrap();
    assert!(removed.contains("not this"), "{removed}");
    assert!(removed.contains("\'\'\'\n[mcp.files]\n\'\'\'"), "{removed}");
    assert!(!removed.contains("command = \"x\""), "{removed}");
    assert!(!has(&removed, "files").unwrap());
    assert!(has(&removed, "other").unwrap());
}

#[test]
fn only_the_comment_right_above_goes_with_a_server() {
    let file = "# about this file\n\n# about files\n[mcp.files]\ncommand = \"x\"\n\n# about other\n\
                [mcp.other]\ncommand = \"y\"\n\n# the end\n";
    let removed = remove(file, "files").unwrap();
    assert_eq!(
        removed,
        "# about this file\n\n# about other\n[mcp.other]\ncommand = \"y\"\n\n# the end\n"
    );
    let last = remove(file, "other").unwrap();
    assert!(last.ends_with("command = \"x\"\n\n# the end\n"), "{last}");
    let quoted = "[mcp.\"files\"]\ncommand = \"x\"\n[ mcp . \'files\' . env ]\nA = \"b\"\n";
    assert_eq!(remove(quoted, "files").unwrap(), "");
}

#[test]
fn a_file_that_is_not_toml_is_left_alone() {
    assert!(add("[mcp", "new", &server()).is_err());
    assert!(add("mcp = 3\n", "new", &server()).is_err());
}
