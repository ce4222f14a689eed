//! Commands taken apart: what an allowing rule covers, and what a denying one does not miss.

mod harmless;
mod hidden;
mod smuggling;
mod told;

use serde_json::json;

use super::super::{Call, Ruled, Rules};
use crate::settings::PermissionSettings;

/// What rules say of `command` in a word.
fn judge(allow: &[&str], deny: &[&str], command: &str) -> &'static str {
    let bash = |patterns: &[&str]| {
        let rules = patterns.iter().map(|pattern| format!("bash({pattern})"));
        rules.collect::<Vec<_>>()
    };
    let settings = json!({"allow": bash(allow), "deny": bash(deny)});
    let settings: PermissionSettings = serde_json::from_value(settings).unwrap();
    let rules = Rules::new(&settings, &PermissionSettings::default());
    let input = json!({"command": command});
    match rules.judge(&Call {
        tool: "bash",
        input: &input,
        touched: None,
    }) {
        Ruled::Silent => "nothing",
        Ruled::Allow(_) => "allow",
        Ruled::Protected(_) => "protected",
        Ruled::Ask(_) => "ask",
        Ruled::Deny(_) => "deny",
    }
}

const GIT: &[&str] = &["git status*", "git log *", "ls*"];

#[test]
fn d_04_a_command_is_allowed_if_each_of_its_parts_is() {
    for command in [
        "git status",
        "git status --short",
        "  git   status  ",
        "git \"status\" '-s'",
        "git\tstatus",
        "git \\\n status",
        "git status; git status",
        "git status && ls -l || ls",
        "git status | ls",
        "git status |& ls",
        "git status &",
        "git status\nls\n",
        "(git status; ls)",
        "{ git status; ls; }",
        "! git status",
        "time git status",
        "time -p git status",
        "git status > /dev/null 2>&1",
        "git log",
        "ls # ; rm x",
        "ls 'a; rm x' \"b | rm y\" c\\;rm",
        "sh -c 'git status; ls'",
        "bash -ec \"git status\"",
        "timeout -k 5 10 git status",
        "nice -n 5 nohup git status",
        "command git status",
        "exec git status",
        "timeout 5 sh -c 'ls'",
        "timeout 5 /usr/bin/nice -n 5 ls",
        "git status &> /dev/null",
        "git status 2>/dev/null | ls -l 2>&1",
        "( git status ) > /dev/null",
        "ls src/*.rs ./*.rs /srv/a? a[bc]",
        "git log HEAD~1 stash@{0} \"a$\" '$x' \\$x",
        "ls \"a b\" 'c d' e\\ f \"it's\"",
        "ls a#b \\# '#'",
    ] {
        assert_eq!(judge(GIT, &[], command), "allow", "{command}");
    }
}

#[test]
fn d_04_a_command_with_a_part_that_no_rule_allows_is_not_allowed() {
    let is_covered = |command: &&&str| judge(GIT, &[], command) != "nothing";
    let covered: Vec<_> = smuggling::SMUGGLING.iter().filter(is_covered).collect();
    assert!(covered.is_empty(), "allowed: {covered:#?}");
}

#[test]
fn d_04_what_starts_another_program_must_be_spelled_out_up_to_its_name() {
    for (pattern, command, expected) in [
        ("env *", "env rm x", "nothing"),
        ("env X=1 cargo *", "env X=1 cargo test", "allow"),
        ("env X=1 *", "env X=1 rm x", "nothing"),
        ("xargs *", "xargs rm", "nothing"),
        ("xargs grep *", "xargs grep x", "allow"),
        ("xargs -0 grep *", "xargs -0 grep x", "allow"),
        ("xargs -0 *", "xargs -0 grep x", "nothing"),
        ("xargs sh *", "xargs sh -c 'rm x'", "allow"),
        ("sudo *", "sudo rm x", "nothing"),
        ("sudo -u bob make *", "sudo -u bob make x", "allow"),
        // `%n` sets a variable, here the one by which programs are found.
        ("printf *", "printf '%n' PATH", "nothing"),
        ("printf *", "printf -- 'a%-5ln' PATH", "nothing"),
        ("printf *", "printf '%d %*n' 1 2 PATH", "nothing"),
        ("printf *", "printf '%s\\n' name", "allow"),
        ("printf *", "printf '100%%n'", "allow"),
        ("find *", "find . -name '*.rs'", "allow"),
        ("find *", "find . -exec rm {} \\;", "nothing"),
        ("find *", "find . -execdir rm {} +", "nothing"),
        ("find *", "find . -delete", "nothing"),
        ("find . -delete", "find . -delete", "allow"),
        ("ssh *", "ssh host rm x", "nothing"),
        ("ssh host uptime", "ssh host uptime", "allow"),
        ("make*", "X=1 make", "nothing"),
        ("* --version", "X=1 make --version", "nothing"),
        ("X=1 make*", "X=1 make all", "allow"),
        ("X=1 *", "X=1 make all", "nothing"),
        ("X=1 sh *", "X=1 sh -c ls", "nothing"),
        ("*", "anything; at > all `x", "allow"),
        ("git status", "git status -s", "nothing"),
        ("git status *", "git status", "allow"),
        ("git status *", "git statusx", "nothing"),
        ("git commit -m 'a b'", "git commit -m \"a b\"", "allow"),
        ("git commit -m 'a b'", "git commit -m a b", "nothing"),
        ("git commit -m *", "git commit -m 'a; b'", "allow"),
        ("git log * -1", "git log $x -1", "nothing"),
        ("cat src/*", "cat src/$x", "nothing"),
        ("cat src/*", "cat src/a*", "allow"),
        ("cat src/*", "cat s*", "nothing"),
        ("cat src/a", "cat src/?", "nothing"),
        ("cat *.rs", "cat a*.rs", "nothing"),
        ("git * status", "git a* status", "nothing"),
        ("git s*", "git s*", "allow"),
        ("git st*", "git s*", "nothing"),
        ("find *", "find . {-exec,touch,P,\\;}", "nothing"),
        ("find *", "find *", "nothing"),
        ("find *", "find src/* -name x", "allow"),
        ("find *", "find . $x", "nothing"),
        ("echo *", "echo 'rm x' \"a b\"", "allow"),
        ("test *", "test -f x", "allow"),
        ("test *", "test -v 'a[$(rm x)]'", "nothing"),
        ("[ *", "[ -f x ]", "allow"),
        ("[ *", "[ -v x ]", "nothing"),
        ("printf *", "printf '%s' x", "allow"),
        ("printf *", "printf -v PATH x", "nothing"),
        ("printf *", "printf -vPATH x", "nothing"),
        ("set *", "set -euo pipefail", "allow"),
        ("set *", "set -- x", "nothing"),
        ("cd *", "cd src", "allow"),
        ("export *", "export PATH=/evil", "nothing"),
        ("eval *", "eval x", "nothing"),
        ("source *", "source x", "nothing"),
        ("read *", "read x", "nothing"),
        ("git commit -m 'a b'", "git commit -m 'a\nb'", "nothing"),
        ("git *", "git -c core.pager=x log", "nothing"),
        ("git *", "git rebase --exec x", "nothing"),
        ("tar *", "tar xf a --to-command=x", "nothing"),
        ("tar *", "tar xf a", "allow"),
        ("tar *", "tar cIf x o.tar f", "nothing"),
        ("tar *", "tar cfI o.tar x f", "nothing"),
        ("git *", "git grep -nOx hi", "nothing"),
        ("rsync *", "rsync -avze x a b", "nothing"),
        ("rsync *", "rsync -av a b", "allow"),
        ("sort *", "sort --compress-prog=x a", "nothing"),
        ("rg *", "rg --pre x a", "nothing"),
        ("man *", "man -P x ls", "nothing"),
        ("man *", "man ls", "allow"),
        ("cat src/*", "cat $x/a", "nothing"),
    ] {
        assert_eq!(
            judge(&[pattern], &[], command),
            expected,
            "{pattern} on {command}"
        );
    }
}

/// Each runs `rm`, or may.
const HIDING: &[&str] = &[
    "rm x",
    "rm",
    "git status; rm -rf x",
    "git status $(rm x)",
    "git status \"`rm x`\"",
    "cat <<EOF\n$(rm x)\nEOF",
    "cat <(rm x)",
    "r\\m x",
    "\"rm\" x",
    "'r'm x",
    "$'rm' x",
    "$'\\x72m' x",
    "$'\\162m' x",
    "$'\\u0072m' x",
    "\\rm x",
    "r\\\nm x",
    "/bin/rm x",
    "../../bin/rm x",
    "X=1 rm x",
    "env rm x",
    "env -i X=1 rm x",
    "env -u X rm x",
    "env -S 'rm x'",
    "sudo rm x",
    "sudo -u bob rm x",
    "sudo --user bob rm x",
    "sudo sh -c 'rm x'",
    "nohup nice -n 5 timeout 5 rm x",
    "xargs rm",
    "xargs -n1 rm -f",
    "xargs -I{} sh -c 'rm {}'",
    "find . -exec rm {} \\;",
    "find . -name x -execdir /bin/rm {} +",
    "sh -c 'rm x'",
    "bash -c \"sh -c 'rm x'\"",
    "eval rm x",
    "eval 'r''m x'",
    "command rm x",
    "exec rm x",
    "builtin rm x",
    "busybox rm x",
    "time rm x",
    "/usr/bin/time -v rm x",
    "ssh host rm x",
    "ssh host 'rm x'",
    "su -c 'rm x'",
    "watch 'rm x'",
    "parallel rm ::: a",
    "f() { rm x; }; f",
    "alias ls='rm x'; ls",
    "trap 'rm x' EXIT",
    "if true; then rm x; fi",
    "for x in a; do rm $x; done",
    "case a in a) rm x;; esac",
    "! rm x",
    "coproc rm x",
    "[[ -n $(rm x) ]]",
    "ls > >(rm x)",
    "ls &> /dev/null rm x",
    "ls &> /dev/null X=1 rm x",
    "x=$(rm x)",
    "x=($(rm x))",
    "echo ${x:-$(rm x)}",
    "echo $(( $(rm x) ))",
    // What may be it.
    "$x y",
    "X=rm; $X y",
    "/bin/r? x",
    "{rm,x}",
    "eval \"$x\"",
    "sh -c \"$x\"",
    "echo cm0geA== | base64 -d | sh",
    "sh <<EOF\nrm x\nEOF",
    "bash < script",
    "echo ${x@P}",
    "x='a[$(rm x)]'; echo $((x))",
    "test -v 'a[$(rm x)]'",
    "ls ${!x}",
    "git status 'unclosed",
    "git status\u{0}rm",
];

#[test]
fn d_04_a_denied_part_is_found_wherever_it_hides() {
    for command in HIDING {
        let said = judge(&["*"], &["rm *"], command);
        assert_eq!(said, "deny", "{command}");
    }
}

#[test]
fn d_04_a_command_that_a_deny_rule_cannot_rule_out_is_denied() {
    let tables = [hidden::BY_THE_SHELL, told::BY_A_PROGRAM];
    assert!(tables.iter().map(|table| table.len()).sum::<usize>() > 400);
    let is_missed = |command: &&str| judge(&["*"], &["rm *"], command) != "deny";
    let missed: Vec<&str> = tables.concat().into_iter().filter(is_missed).collect();
    assert!(missed.is_empty(), "not denied: {missed:#?}");
}

#[test]
fn d_04_a_deny_rule_leaves_everyday_commands_alone() {
    let is_hit = |command: &&&str| judge(&["*"], &["rm *"], command) != "allow";
    let hit: Vec<_> = harmless::HARMLESS.iter().filter(is_hit).collect();
    assert!(hit.is_empty(), "not allowed: {hit:#?}");
}

#[test]
fn d_04_a_denying_rule_leaves_the_rest_alone() {
    for command in [
        "ls",
        "git rm x",
        "rmdir x",
        "echo rm x",
        "echo 'rm x'",
        "make -C $dir",
        "git log $(git status)",
        "cargo test 2>&1 | tail -5 > log",
        "for x in *; do ls \"$x\"; done",
        "cat <<'EOF' > x\nrm y\nEOF",
        "grep -r 'rm x' .",
        "xargs grep \"$x\"",
        "find . -name rm",
        "bash script.sh",
        "ls *",
        "awk '{print $1}' x",
        "A=1 B=2 make",
        "set -euo pipefail; make",
    ] {
        assert_eq!(judge(&["*"], &["rm *"], command), "allow", "{command}");
    }
    assert_eq!(judge(&["*"], &["git push*"], "git $x"), "deny");
    assert_eq!(judge(&["*"], &["git push*"], "git log $x"), "allow");
    assert_eq!(
        judge(&["*"], &["cat /etc/shadow"], "cat /etc/shado?"),
        "deny"
    );
    assert_eq!(judge(&["*"], &["cat /etc/shadow"], "cat /etc/*"), "deny");
    assert_eq!(judge(&["*"], &["cat /etc/shadow"], "cat /usr/*"), "allow");
}

#[test]
fn d_04_a_directory_of_its_own_is_judged_like_going_there() {
    let judge = |allow: serde_json::Value, cwd: &str| {
        let settings: PermissionSettings = serde_json::from_value(json!({"allow": allow})).unwrap();
        let rules = Rules::new(&settings, &PermissionSettings::default());
        let input = json!({"command": "git status", "cwd": cwd});
        let call = Call {
            tool: "bash",
            input: &input,
            touched: None,
        };
        matches!(rules.judge(&call), Ruled::Allow(_))
    };
    assert!(judge(json!(["bash(git status)"]), "."));
    assert!(!judge(json!(["bash(git status)"]), "vendor"));
    assert!(judge(
        json!(["bash(git status)", "bash(cd vendor)"]),
        "vendor"
    ));
    assert!(judge(json!(["bash"]), "vendor"));
}
