//! What rules say of calls: files, sites, names, and their order.

use std::path::PathBuf;

use serde_json::{Value, json};
use tools::roots::Roots;

use super::{Call, Origin, Ruled, Rules};
use crate::settings::{FileSettings, PermissionSettings};

fn settings(allow: &[&str], ask: &[&str], deny: &[&str]) -> PermissionSettings {
    let lists = json!({"allow": allow, "ask": ask, "deny": deny});
    serde_json::from_value(lists).unwrap()
}

fn rules(allow: &[&str], ask: &[&str], deny: &[&str]) -> Rules {
    let none = FileSettings::default().permissions;
    Rules::new(&settings(allow, ask, deny), &none)
}

fn judge(rules: &Rules, tool: &str, input: &Value) -> &'static str {
    let roots = Roots::new(PathBuf::from("/nowhere/w"), Vec::new(), Vec::new());
    let touched = tools::touched::path(tool, input).map(|path| roots.touched(path));
    word(&rules.judge(&Call {
        tool,
        input,
        touched: touched.as_ref(),
    }))
}

fn word(ruled: &Ruled) -> &'static str {
    match ruled {
        Ruled::Silent => "nothing",
        Ruled::Allow(_) => "allow",
        Ruled::Protected(_) => "protected",
        Ruled::Ask(_) => "ask",
        Ruled::Deny(_) => "deny",
    }
}

#[test]
fn d_04_deny_beats_ask_beats_allow_whoever_says_so() {
    let read = json!({"path": "a"});
    let all = rules(&["write"], &["write"], &["write"]);
    assert_eq!(judge(&all, "write", &read), "deny");
    let two = rules(&["write"], &["write"], &[]);
    assert_eq!(judge(&two, "write", &read), "ask");
    assert_eq!(judge(&rules(&["write"], &[], &[]), "write", &read), "allow");
    assert_eq!(
        judge(&rules(&["write"], &[], &[]), "edit", &read),
        "nothing"
    );
    // The project's deny beats the operator's allow, and the other way round.
    let both = Rules::new(
        &settings(&["*"], &[], &["edit"]),
        &settings(&["edit"], &[], &["write"]),
    );
    for tool in ["edit", "write"] {
        assert_eq!(judge(&both, tool, &read), "deny", "{tool}");
    }
}

#[test]
fn d_04_a_rule_is_told_with_whose_it_is() {
    let rules = Rules::new(
        &settings(&[], &[], &[]),
        &settings(&["write"], &[], &["bash(rm *)"]),
    );
    let ruled = |tool: &str, input: Value| {
        rules.judge(&Call {
            tool,
            input: &input,
            touched: None,
        })
    };
    let Ruled::Allow(named) = ruled("write", json!({})) else {
        panic!("allowed")
    };
    assert_eq!(
        (named[0].rule.as_str(), named[0].from),
        ("write", Origin::Project)
    );
    let Ruled::Deny(why) = ruled("bash", json!({"command": "rm x"})) else {
        panic!("denied")
    };
    assert_eq!(
        why,
        "It was not run: the rule bash(rm *) of the project denies it."
    );
    let Ruled::Deny(why) = ruled("bash", json!({"command": "$x y"})) else {
        panic!("denied")
    };
    assert!(
        why.contains("known only when it runs, so it may be what the rule bash(rm *)"),
        "{why}"
    );
}

#[test]
fn d_04_names_have_stars_and_nothing_else() {
    let mcp = rules(&["mcp__files__*"], &[], &["mcp__files__delete"]);
    assert_eq!(judge(&mcp, "mcp__files__read", &json!({})), "allow");
    assert_eq!(judge(&mcp, "mcp__files__delete", &json!({})), "deny");
    assert_eq!(judge(&mcp, "mcp__filesystem__read", &json!({})), "nothing");
    assert_eq!(judge(&mcp, "MCP__files__read", &json!({})), "nothing");
    let review = rules(&["skill(review*)", "slash_command(fix)"], &[], &[]);
    assert_eq!(
        judge(&review, "skill", &json!({"name": "review-all"})),
        "allow"
    );
    assert_eq!(
        judge(&review, "skill", &json!({"name": ["review"]})),
        "nothing"
    );
    assert_eq!(
        judge(&review, "slash_command", &json!({"name": "fixes"})),
        "nothing"
    );
}

#[test]
fn d_04_names_are_read_as_the_tools_read_them() {
    let deny = rules(&[], &[], &["slash_command(fix)", "task(general)"]);
    for name in ["fix", "/fix", "//fix"] {
        let input = json!({ "name": name });
        assert_eq!(judge(&deny, "slash_command", &input), "deny", "{name}");
    }
    for input in [
        json!({}),
        json!({"agent": " "}),
        json!({"agent": "general"}),
    ] {
        assert_eq!(judge(&deny, "task", &input), "deny", "{input}");
    }
    assert_eq!(judge(&deny, "task", &json!({"agent": "scout"})), "nothing");
}

#[test]
fn d_04_the_network_is_granted_by_its_own_rule() {
    assert!(!Rules::default().grants_network());
    assert!(!rules(&["bash"], &[], &[]).grants_network());
    assert!(rules(&["network"], &[], &[]).grants_network());
    assert!(!rules(&["network"], &[], &["network"]).grants_network());
    assert!(!rules(&["network"], &["network"], &[]).grants_network());
}

#[test]
fn d_04_the_network_of_a_tool_server_is_granted_by_its_own_rule() {
    let gives = |allow: &[&str], ask: &[&str], deny: &[&str]| {
        rules(allow, ask, deny).grants_network_to("tracker")
    };
    for given in ["mcp_network", "mcp_network(tracker)", "mcp_network(t*)"] {
        assert!(gives(&[given], &[], &[]), "{given}");
        for taken in ["mcp_network(tracker)", "mcp_network", "*"] {
            assert!(!gives(&[given], &[taken], &[]), "{given}, asked {taken}");
            assert!(!gives(&[given], &[], &[taken]), "{given}, denied {taken}");
        }
        assert!(gives(&[given], &[], &["mcp_network(other)"]), "{given}");
    }
    // Tools and commands are something else.
    for other in [
        "*",
        "mcp_*",
        "mcp__tracker__*",
        "network",
        "mcp_network(other)",
    ] {
        assert!(!gives(&[other], &[], &[]), "{other}");
    }
}

#[test]
fn d_04_a_domain_is_its_host_and_those_beneath_and_no_lookalike() {
    let rules = rules(
        &["web_fetch(domain:example.org)"],
        &[],
        &["web_fetch(domain:bad.example)"],
    );
    let url = |url: &str| judge(&rules, "web_fetch", &json!({"url": url}));
    for address in [
        "https://example.org/a?b#c",
        "http://EXAMPLE.org:8080/",
        "https://docs.example.org/",
        "https://example.org./",
        "https://user@example.org/",
    ] {
        assert_eq!(url(address), "allow", "{address}");
    }
    for address in [
        "https://notexample.org/",
        "https://example.org.evil.net/",
        "https://example.org@evil.net/",
        "https://evil.net/example.org",
        "https://evil.net\\@example.org/",
        "https://ехample.org/",
        "example.org",
        "",
    ] {
        assert_eq!(url(address), "nothing", "{address}");
    }
    for address in [
        "https://bad.example",
        "https://BAD.EXAMPLE./x",
        "https://a.b.bad.example/",
    ] {
        assert_eq!(url(address), "deny", "{address}");
    }
    let docs = super::tests::rules(&["web_fetch(https://example.org/docs/*)"], &[], &[]);
    let url = |url: &str| judge(&docs, "web_fetch", &json!({"url": url}));
    assert_eq!(url("https://example.org/docs/a"), "allow");
    assert_eq!(url("https://EXAMPLE.org:443/docs/a#b"), "allow");
    assert_eq!(url("https://example.org/docs/../secret"), "nothing");
    assert_eq!(url("http://example.org/docs/a"), "nothing");
    assert_eq!(url("https://x:y@example.org/docs/a"), "nothing");
}

#[test]
fn d_04_patterns_of_files_mean_what_they_say() {
    let is_allowed = |pattern: &str, path: &str| {
        let rules = rules(&[&format!("edit({pattern})")], &[], &[]);
        // Without a disk the spelling is all there is, so it is compared as what is denied.
        let denied = super::tests::rules(&[], &[], &[&format!("edit({pattern})")]);
        assert_eq!(judge(&rules, "edit", &json!({"path": path})), "nothing");
        judge(&denied, "edit", &json!({"path": path})) == "deny"
    };
    for (pattern, path) in [
        ("src/**", "src/a"),
        ("src/**", "src/a/b/c"),
        ("src/**", "x/../src/a"),
        ("src/**/*.rs", "src/a.rs"),
        ("src/**/*.rs", "src/x/y/a.rs"),
        ("src/*", "src/a"),
        ("src", "src/a/b"),
        ("./src", "src/a"),
        ("src/", "src/a"),
        ("*.md", "deep/er/a.md"),
        (".env", "deep/.env"),
        ("a?c", "abc"),
        ("**", "anything/at/all"),
        ("/nowhere/w/src/**", "src/a"),
        ("/etc/**", "/etc/passwd"),
        ("secrets/**", "SECRETS/key"),
    ] {
        assert!(is_allowed(pattern, path), "{pattern} on {path}");
    }
    for (pattern, path) in [
        ("src/**", "src"),
        ("src/**", "srcs/a"),
        ("src/**", "x/src/a"),
        ("src/**", "src/../secrets/key"),
        ("src/*", "src/a/b"),
        ("./src", "x/src/a"),
        ("*.md", "a.mdx"),
        ("a?c", "ac"),
        ("src/**", "ſrc/a"),
        ("caf\u{e9}", "cafe\u{301}"),
    ] {
        assert!(!is_allowed(pattern, path), "{pattern} on {path}");
    }
}

#[test]
fn d_04_files_are_judged_by_where_they_are_and_not_by_what_they_are_called() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().canonicalize().unwrap();
    for directory in ["src", "secrets"] {
        std::fs::create_dir(top.join(directory)).unwrap();
    }
    std::fs::write(top.join("secrets/key"), "").unwrap();
    std::os::unix::fs::symlink("../secrets", top.join("src/link")).unwrap();
    std::os::unix::fs::symlink("../src", top.join("secrets/back")).unwrap();
    let roots = Roots::new(top.clone(), Vec::new(), Vec::new());
    let check = |rules: &Rules, path: &str| {
        let touched = roots.touched(path);
        word(&rules.judge(&Call {
            tool: "edit",
            input: &json!({"path": path}),
            touched: Some(&touched),
        }))
    };
    let allow = rules(&["edit(src/**)"], &[], &[]);
    for path in ["src/a", "./src/x/../a", "secrets/back/a", "src/new/deep"] {
        assert_eq!(check(&allow, path), "allow", "{path}");
    }
    let absolute = top.join("src/a");
    assert_eq!(check(&allow, absolute.to_str().unwrap()), "allow");
    for path in [
        "src/../secrets/key",
        "src/link/key",
        "src/link/new",
        "SRC/a",
        "ſrc/a",
        "src",
        "../src/a",
        "/src/a",
        "/proc/self/cwd/src/a",
    ] {
        assert_eq!(check(&allow, path), "nothing", "{path}");
    }
    let deny = rules(&["edit"], &[], &["edit(secrets/**)"]);
    for path in [
        "secrets/key",
        "src/link/key",
        "src/../secrets/key",
        "Secrets/key",
        "secrets/back/a",
    ] {
        assert_eq!(check(&deny, path), "deny", "{path}");
    }
    assert_eq!(check(&deny, "src/a"), "allow");
}

#[test]
fn d_04_a_search_that_may_come_to_what_is_denied_is_denied() {
    let deny = rules(&[], &[], &["grep(secrets/**)", "list(secrets)"]);
    let grep = |path: &str| judge(&deny, "grep", &json!({"pattern": "x", "path": path}));
    for path in [".", "secrets", "secrets/deep", "src/../secrets"] {
        assert_eq!(grep(path), "deny", "{path}");
    }
    assert_eq!(grep("src"), "nothing");
    assert_eq!(judge(&deny, "grep", &json!({"pattern": "x"})), "deny");
    assert_eq!(judge(&deny, "list", &json!({})), "nothing");
    assert_eq!(judge(&deny, "list", &json!({"path": "secrets"})), "deny");
}

#[test]
fn d_04_a_protected_file_needs_a_rule_that_names_it() {
    for path in [
        ".git/config",
        "sub/.git/hooks/pre-commit",
        ".git",
        ".envrc",
        ".vscode/settings.json",
        ".claude/settings.json",
        "fastness.toml",
        "a/../.mcp.json",
    ] {
        let input = json!({ "path": path });
        for broad in [
            "write",
            "*",
            "write(*)",
            "write(**)",
            "write(**/*)",
            "write(/nowhere/**)",
        ] {
            let judged = judge(&rules(&[broad], &[], &[]), "write", &input);
            assert_eq!(judged, "protected", "{broad} {path}");
        }
        assert_eq!(judge(&rules(&[], &[], &[]), "edit", &input), "protected");
        assert_eq!(
            judge(&rules(&[], &[], &[]), "notebook_edit", &input),
            "protected"
        );
        assert_eq!(
            judge(&rules(&[], &[], &["write(**)"]), "write", &input),
            "deny"
        );
        assert_eq!(judge(&rules(&["read"], &[], &[]), "read", &input), "allow");
    }
    let place = tempfile::tempdir().unwrap();
    let roots = Roots::new(place.path().canonicalize().unwrap(), Vec::new(), Vec::new());
    let judge_there = |rule: &str, tool: &str, path: &str| {
        word(&rules(&[rule], &[], &[]).judge(&Call {
            tool,
            input: &json!({ "path": path }),
            touched: Some(&roots.touched(path)),
        }))
    };
    for (rule, path) in [
        ("write(.envrc)", "sub/.envrc"),
        ("write(.vscode/**)", ".vscode/settings.json"),
        ("write(.git/config)", ".git/config"),
        ("write(**/.claude/agents/*)", "x/.claude/agents/a.md"),
    ] {
        assert_eq!(judge_there(rule, "write", path), "allow", "{rule} {path}");
        assert_eq!(
            judge_there(rule, "edit", path),
            "protected",
            "{rule} {path}"
        );
    }
    let plain = json!({"path": "src/main.rs"});
    assert_eq!(
        judge(&rules(&["write"], &[], &[]), "write", &plain),
        "allow"
    );
    assert_eq!(judge(&rules(&[], &[], &[]), "write", &plain), "nothing");
}

#[test]
fn d_04_a_command_that_makes_a_repository_needs_a_rule_that_names_it() {
    for (rule, command, expected) in [
        ("bash", "git init", "protected"),
        ("bash(git *)", "git clone ../a", "protected"),
        ("bash(git init*)", "git init", "allow"),
        ("bash(git clone *)", "git clone ../a", "allow"),
        ("bash(git worktree add *)", "git worktree add ../w", "allow"),
        ("bash(git *)", "git status", "allow"),
        ("bash(git *)", "git worktree list", "allow"),
    ] {
        let judged = judge(
            &rules(&[rule], &[], &[]),
            "bash",
            &json!({ "command": command }),
        );
        assert_eq!(judged, expected, "{rule} {command}");
    }
}
