//! What is a rule, and what is said about what is none.

use super::Rule;

fn problem(text: &str) -> String {
    text.parse::<Rule>().unwrap_err().to_string()
}

#[test]
fn d_04_names_and_patterns_are_rules() {
    for rule in [
        "bash",
        "bash(*)",
        "bash(git status*)",
        "bash(git commit -m *)",
        "bash(RUST_LOG=debug cargo test*)",
        "bash(./scripts/*)",
        "bash([ *)",
        "edit(src/**)",
        "edit(*.rs)",
        "read(/etc/hosts)",
        "write(out/)",
        "grep(secrets/**)",
        "web_fetch(domain:example.org)",
        "web_fetch(domain:bücher.example)",
        "web_fetch(https://example.org/docs/*)",
        "web_search(rust *)",
        "skill(review)",
        "task(reviewer)",
        "mcp__files__read",
        "mcp__files__*",
        "mcp__*",
        "web_*",
        "*",
        "network",
        "mcp_network",
        "mcp_network(tracker)",
        " todo ",
    ] {
        assert!(rule.parse::<Rule>().is_ok(), "{rule}: {}", problem(rule));
    }
}

#[test]
fn d_04_what_is_no_rule_is_named_with_the_nearest_that_is() {
    for (text, nearest) in [
        ("", "lsp"),
        ("Bash", "bash"),
        ("Bash(git status)", "bash(git status)"),
        ("bsh(git status*)", "bash(git status*)"),
        ("WebFetch(domain:a.org)", "web_fetch(domain:a.org)"),
        ("bash(git:*)", "bash(git *)"),
        ("bash()", "bash"),
        ("bash(git status", "bash(git status)"),
        ("bash(git status; rm x)", "bash(git status)"),
        ("bash(git log | head)", "bash(git log)"),
        ("bash(echo x > y)", "bash(echo x)"),
        ("bash(cat $HOME/x)", "bash(cat)"),
        ("bash(time make)", "bash(time make)"),
        ("bash(for x in y)", "bash(for x in y)"),
        ("edit(~/src/**)", "edit(src/**)"),
        ("edit(../x)", "edit(x/**)"),
        ("edit({a,b}/**)", "edit(a/**)"),
        ("web_fetch(example.org)", "web_fetch(domain:example.org)"),
        (
            "web_fetch(https://example.org*)",
            "web_fetch(domain:example.org)",
        ),
        (
            "web_fetch(https://*.example.org/)",
            "web_fetch(domain:example.org)",
        ),
        ("todo(x)", "todo"),
        ("network(x)", "network"),
        ("mcp__files", "mcp__files__*"),
        ("mcp__files__read(x)", "mcp__files__read"),
        ("bash\n", "bash"),
    ] {
        let text = &text.replace("bash\n", "ba\u{7}sh");
        let said = problem(text);
        let is_named = said.starts_with(&format!("`{text}` is not a rule: "));
        let expected = match nearest {
            "bash" if text.contains('\u{7}') => "`bash(git status*)`".to_owned(),
            nearest => format!("`{nearest}`"),
        };
        assert!(is_named && said.ends_with(&expected), "{text}: {said}");
    }
    let long = format!("bash({})", "x".repeat(5_000));
    assert!(problem(&long).len() < 400);
}
