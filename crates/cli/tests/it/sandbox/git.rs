//! Git outside the sandbox runs nothing that a command in the sandbox has put there, and git inside it
//! works.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::home::read_file;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};
use tokio::time::{Duration, timeout};

use super::{AS_NOBODY, LAYERS, furnished, give_away, is_root, printed, program_for_all, runner};
use crate::support::binary;

const ATTACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/git-attacks.sh");

/// What git needs to commit, and to use a submodule on this disk.
const IDENTITY: &[&str] = &[
    "-c",
    "user.name=A",
    "-c",
    "user.email=a@example.org",
    "-c",
    "protocol.file.allow=always",
];

/// Runs git as the owner of the project.
#[expect(
    clippy::disallowed_methods,
    reason = "git of the user, outside of the sandbox"
)]
fn git(home: &Home, as_nobody: bool, directory: &Path, arguments: &[&str]) -> Output {
    let mut command = match as_nobody {
        true => {
            let mut command = Command::new(AS_NOBODY[0]);
            command.args(&AS_NOBODY[1..]).arg("git");
            command
        }
        false => Command::new(testkit::system::program("git")),
    };
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.user_dir())
        .env("GIT_EDITOR", "true")
        .args(IDENTITY)
        .args(arguments)
        .current_dir(directory)
        .output()
        .unwrap()
}

fn set_up(home: &Home, directory: &Path, arguments: &[&str]) {
    let output = git(home, false, directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
}

/// A repository with one commit.
fn repository(home: &Home, path: &Path) {
    std::fs::create_dir_all(path).unwrap();
    set_up(home, path, &["init", "-q", "-b", "main"]);
    std::fs::write(path.join("file"), "one\n").unwrap();
    set_up(home, path, &["add", "file"]);
    set_up(home, path, &["commit", "-q", "-m", "one"]);
}

/// A project with a submodule, a work tree, a nested repository, and settings that name files.
fn project(home: &Home, path: &Path) {
    let library = home.user_dir().join("library");
    if !library.exists() {
        repository(home, &library);
    }
    repository(home, path);
    let library = library.display().to_string();
    let add = [
        "submodule",
        "--quiet",
        "add",
        "--name",
        "x/lib",
        &library,
        "lib",
    ];
    set_up(home, path, &add);
    set_up(home, path, &["commit", "-q", "-m", "two"]);
    set_up(home, path, &["worktree", "add", "-q", "wt"]);
    set_up(home, path, &["config", "extensions.worktreeConfig", "true"]);
    set_up(home, path, &["config", "include.path", "../shared.config"]);
    std::fs::write(path.join("shared.config"), "[color]\n\tui = never\n").unwrap();
    repository(home, &path.join("nested"));
    let hooks = ["config", "core.hooksPath", "../nested-hooks"];
    set_up(home, &path.join("nested"), &hooks);
    std::fs::create_dir(path.join("nested-hooks")).unwrap();
    std::fs::write(path.join("nested-hooks/post-commit"), "#!/bin/sh\n").unwrap();
}

/// Directories in which the user may run git.
fn directories(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    for entry in path.read_dir().into_iter().flatten() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        let is_inner =
            ["objects", "refs", "logs", "hooks", "info"].contains(&name.to_str().unwrap());
        if entry.file_type().unwrap().is_dir() && !is_inner {
            directories(&entry.path(), found);
        }
    }
}

/// Projects at once: each takes some twenty mounts.
const BATCH: usize = 8;

fn cases() -> Vec<String> {
    let script = read_file(Path::new(ATTACKS)).unwrap();
    let cases = script.lines().filter_map(|line| {
        let name = line.split("()").next().filter(|name| *name != line)?;
        name.starts_with("case_").then(|| name.to_owned())
    });
    cases.collect()
}

/// Does all attacks in `layer`; gives the cases whose program ran when git was used outside, and what
/// the commands printed.
async fn attacks_that_work(layer: &str, as_nobody: bool) -> (Vec<String>, String) {
    let (mut ran, mut said) = (Vec::new(), String::new());
    for batch in cases().chunks(BATCH) {
        let (more, printed) = attack(layer, as_nobody, batch).await;
        ran.extend(more);
        said.push_str(&printed);
    }
    ran.sort();
    (ran, said)
}

#[expect(clippy::disallowed_methods, reason = "a test copies its own directory")]
async fn attack(layer: &str, as_nobody: bool, cases: &[String]) -> (Vec<String>, String) {
    let mut home = furnished("", layer);
    let top = home.workspace().canonicalize().unwrap();
    std::fs::remove_dir_all(top.join(".git")).unwrap();
    home.write("attacks.sh", &read_file(Path::new(ATTACKS)).unwrap());
    let marks = home.user_dir().join("marks");
    std::fs::create_dir(&marks).unwrap();
    project(&home, &top.join("template"));
    for case in cases {
        let copied = Command::new("cp")
            .args(["-a", "template", case])
            .current_dir(&top)
            .status();
        assert!(copied.unwrap().success());
        // A copied work tree leads to the original.
        set_up(&home, &top.join(case), &["worktree", "repair", "wt"]);
        let evil = top.join(format!("evil-{case}"));
        let mark = marks.join(case);
        std::fs::write(
            &evil,
            format!("#!/bin/sh\ntouch {}\nexit 1\n", mark.display()),
        )
        .unwrap();
        std::fs::set_permissions(&evil, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
    }
    std::fs::remove_dir_all(top.join("template")).unwrap();
    let command = format!("CASES='{}' TOP=$PWD bash attacks.sh", cases.join(" "));
    home.set_script(runner(&command));
    if as_nobody {
        let program = program_for_all(&home);
        home = home.binary_at(program).under(AS_NOBODY);
        give_away(home.workspace().parent().unwrap());
    }
    let said = printed(&home).await;
    assert!(said.contains("attacks over"), "{said}");
    let early = marks.read_dir().unwrap().count();
    assert!(
        early == 0 || layer == "off",
        "{layer}: some got out at once: {said}"
    );
    let mut places = Vec::new();
    directories(&top, &mut places);
    for place in places {
        git(&home, as_nobody, &place, &["status", "--short"]);
        git(&home, as_nobody, &place, &["diff", "--stat"]);
        git(
            &home,
            as_nobody,
            &place,
            &["commit", "-q", "--allow-empty", "-m", "x"],
        );
    }
    let ran = marks.read_dir().unwrap();
    let ran = ran.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    (ran.collect(), said)
}

#[tokio::test]
async fn git_outside_runs_nothing_after_attacks_in_bubblewrap() {
    let (ran, said) = attacks_that_work("auto", false).await;
    assert_eq!(ran, Vec::<String>::new(), "{said}");
}

#[tokio::test]
async fn git_outside_runs_nothing_after_attacks_with_landlock_alone() {
    let (ran, said) = attacks_that_work("landlock", false).await;
    assert_eq!(ran, Vec::<String>::new(), "{said}");
    assert!(said.contains("set-aside"), "{said}");
}

#[tokio::test]
async fn git_outside_runs_nothing_after_attacks_of_an_ordinary_user() {
    for layer in LAYERS.into_iter().filter(|_| is_root()) {
        let (ran, said) = attacks_that_work(layer, true).await;
        assert_eq!(ran, Vec::<String>::new(), "{layer}: {said}");
    }
}

#[tokio::test]
async fn the_attacks_on_git_work_without_a_sandbox() {
    let (ran, said) = attacks_that_work("off", false).await;
    let all = cases();
    let failed: Vec<&String> = all.iter().filter(|case| !ran.contains(case)).collect();
    // Only root can enter a directory without permissions.
    assert!(failed.len() <= 1, "{failed:?}: {said}");
}

/// What people do with git all day.
const DAILY: &str = "set -e; export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=A \
    GIT_COMMITTER_EMAIL=a@b; \
    work() { echo \"$1\" >> file; git add file; git commit -q -m \"$1\"; git checkout -q -b topic-$2; \
      echo more >> file; git stash -q; git stash pop -q; git commit -q -am more-$2; \
      git checkout -q -; echo other > other; git add other; git commit -q -m other; \
      git checkout -q topic-$2; git rebase -q -; git checkout -q -; git merge -q topic-$2; \
      git branch -d topic-$2; git tag t-$2; git gc -q; git status --short; }; \
    (work main m); (cd wt; work wt w); (cd lib; git checkout -q -B main; work lib l); \
    (cd nested; work nested n); git submodule status; git log --oneline | head -3; echo all is well";

#[tokio::test]
async fn git_works_in_the_sandbox_in_worktrees_and_submodules() {
    for layer in LAYERS {
        let home = furnished(DAILY, layer);
        std::fs::remove_dir_all(home.workspace().join(".git")).unwrap();
        project(&home, &home.workspace());
        let said = printed(&home).await;
        assert!(said.contains("all is well"), "{layer}: {said}");
        assert!(!said.contains("set-aside"), "{layer}: {said}");
    }
}

/// What `fastness ask` says with `rule`, and whether it succeeded.
async fn asked(home: &Home, rule: &str) -> String {
    let mut command = home.command("ask");
    command
        .args(["--allow", rule, "go"])
        .stdin(std::process::Stdio::null());
    let output = timeout(Duration::from_secs(120), command.output()).await;
    let output = output.unwrap().unwrap();
    let both = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&both).into_owned()
}

#[tokio::test]
async fn making_a_repository_is_asked_about_and_then_works() {
    let command = "git init -q made && git -c protocol.file.allow=always clone -q nested cloned && \
        git worktree add -q second && git -c protocol.file.allow=always submodule --quiet add \
        ./nested sub && git -C cloned log --format=%s && git -C second status --short && echo done";
    for layer in LAYERS {
        let home = furnished(command, layer);
        std::fs::remove_dir_all(home.workspace().join(".git")).unwrap();
        project(&home, &home.workspace());
        let said = asked(&home, "bash").await;
        assert!(!home.workspace().join("made").exists(), "{layer}: {said}");
        let said = asked(&home, "bash(git *)").await;
        assert!(!home.workspace().join("made").exists(), "{layer}: {said}");
        for rule in ["bash(git init*)"] {
            // Each part needs its rule; here the whole command has one.
            let mut command = home.command("ask");
            command.args(["--allow", rule, "--allow", "bash", "go"]);
            let output = command
                .stdin(std::process::Stdio::null())
                .output()
                .await
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                said.contains("one\n") && said.contains("done"),
                "{layer}: {said}"
            );
            assert!(!said.contains("set-aside"), "{layer}: {said}");
        }
        for made in [
            "made/.git/HEAD",
            "cloned/.git/config",
            "second/.git",
            "sub/.git",
        ] {
            assert!(home.workspace().join(made).exists(), "{layer}: {made}");
        }
        assert!(
            home.read(".git/config")
                .unwrap()
                .contains("submodule \"sub\""),
            "{layer}"
        );
    }
}

#[tokio::test]
async fn what_a_command_planted_is_set_aside_when_its_time_is_up() {
    for layer in LAYERS {
        let command = "mkdir c; echo ../c > .git/commondir; sleep 600";
        let script = Script::new()
            .call([tool(
                "bash",
                json!({"command": command, "timeoutMs": 1_500}),
            )])
            .call([say("${result}")]);
        let home = furnished("", layer);
        home.set_script(script);
        let said = printed(&home).await;
        assert!(said.contains("set-aside"), "{layer}: {said}");
        assert!(!home.workspace().join(".git/commondir").exists(), "{layer}");
    }
}

#[tokio::test]
async fn what_a_killed_supervisor_left_is_set_aside_by_the_next_command() {
    let plant = "mkdir c; echo ../c > .git/commondir; echo $PPID > ready; sleep 600";
    let home = furnished(plant, "landlock");
    let mut asking = home.command("ask");
    asking.args(["--allow", "bash", "go"]).kill_on_drop(true);
    let mut asking = asking.stdin(std::process::Stdio::null()).spawn().unwrap();
    let pid = loop {
        let pid = home
            .read("ready")
            .and_then(|text| text.trim().parse::<i32>().ok());
        if let Some(pid) = pid {
            break pid;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    asking.start_kill().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    asking.wait().await.unwrap();
    home.set_script(runner("echo next"));
    let said = printed(&home).await;
    assert!(
        said.contains("commondir") && said.contains("next"),
        "{said}"
    );
    assert!(!home.workspace().join(".git/commondir").exists(), "{said}");
}

#[tokio::test]
async fn d_04_accept_edits_asks_before_a_protected_file_is_written() {
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".envrc",
        "sub/.vscode/tasks.json",
    ] {
        let script = Script::new()
            .call([tool("write", json!({"path": path, "content": "evil"}))])
            .call([tool(
                "write",
                json!({"path": "plain.txt", "content": "fine"}),
            )])
            .call([say("${result}")]);
        let home = Home::new(binary(), script);
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Reject);
        let session = client.new_session().await;
        let mode = json!({"sessionId": session, "modeId": "acceptEdits"});
        client.call("session/set_mode", mode).await.unwrap();
        client.prompt(&session, "go").await;
        let asked: Vec<Value> = client
            .requests()
            .iter()
            .filter(|request| request.method == "session/request_permission")
            .map(|request| request.params.clone())
            .collect();
        assert_eq!(asked.len(), 1, "{path}: {asked:?}");
        let title = asked[0]["toolCall"]["title"].as_str().unwrap();
        assert!(title.contains("protected: "), "{title}");
        assert_eq!(server.home().read(path), None, "{path}");
        assert_eq!(server.home().read("plain.txt").as_deref(), Some("fine"));
    }
}

#[tokio::test]
async fn closed_directories_hide_nothing_from_the_check() {
    if !is_root() {
        return;
    }
    for layer in LAYERS {
        let close = "chmod 0311 .git; mkdir -p sub/.git; \
            printf '[core]\\n\\tfsmonitor = evil\\n' > sub/.git/config; chmod 0311 sub/.git";
        let home = furnished("", layer);
        let change =
            "printf '[core]\\n\\tfsmonitor = evil\\n' > .git/config; chmod 0311 .git; echo over";
        let script = Script::new()
            .call([tool("bash", json!({"command": close}))])
            .call([tool("bash", json!({"command": change}))])
            .call([say("${result}")]);
        home.set_script(script);
        let program = program_for_all(&home);
        let home = home.binary_at(program).under(AS_NOBODY);
        give_away(home.workspace().parent().unwrap());
        let said = printed(&home).await;
        assert_eq!(
            home.read(".git/config").as_deref(),
            Some("[core]\n"),
            "{layer}: {said}"
        );
        assert_eq!(home.read("sub/.git/config"), None, "{layer}: {said}");
    }
}

#[tokio::test]
async fn names_that_are_not_unicode_do_not_stop_commands() {
    for layer in LAYERS {
        let make = "d=$(printf '\\xff'); mkdir \"$d\"; cp -r .git \"$d/.git\"; touch ~/none";
        let home = furnished("", layer);
        let script = Script::new()
            .call([tool("bash", json!({"command": make}))])
            .call([tool("bash", json!({"command": "echo still here"}))])
            .call([say("${result}")]);
        home.set_script(script);
        let said = printed(&home).await;
        assert!(said.contains("still here"), "{layer}: {said}");
    }
}
