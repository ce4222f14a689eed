//! Setting up: editors, shells, manual pages and the service unit, through the real program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{AcpClient, Home};
use tokio::process::Command;

use crate::project::run;
use crate::support::{binary, echo};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

async fn text(command: &mut Command) -> String {
    let output = command.output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn init_shows_the_difference_asks_first_writes_and_takes_it_back() {
    let home = Home::new(binary(), echo());
    let folder = home.user_dir().join(".config/zed");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("settings.json");
    let before = "{\n  // mine\n  \"theme\": \"x\",\n}\n";
    std::fs::write(&file, before).unwrap();
    let now = || std::fs::read_to_string(&file).unwrap();

    let (told, code) = run(&home, "init", &["--dry-run"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("Zed: ") && told.contains("+  \"agent_servers\": {"),
        "{told}"
    );
    assert!(
        !told.contains("VS Code"),
        "an editor that is not here: {told}"
    );
    let (told, code) = run(&home, "init", &["zed"]).await;
    assert_eq!(code, Some(3), "nobody was asked: {told}");
    assert!(told.contains("--yes"), "{told}");
    assert_eq!(now(), before);

    let (told, code) = run(&home, "init", &["zed", "--yes"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("fastness-backup") && told.contains("next: "),
        "{told}"
    );
    assert!(now().contains("// mine\n"), "{}", now());
    let (told, _) = run(&home, "init", &["zed", "--yes"]).await;
    assert!(told.contains("is set up already"), "{told}");
    let (told, _) = run(&home, "doctor", &[]).await;
    assert!(told.contains("Zed starts us"), "{told}");

    let (told, code) = run(&home, "init", &["zed", "--remove", "--yes"]).await;
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(now(), before);
    let (told, _) = run(&home, "doctor", &[]).await;
    assert!(told.contains("`fastness init zed"), "{told}");
}

#[tokio::test]
async fn what_init_writes_is_what_starts_an_agent() {
    let home = Home::new(binary(), echo());
    let (told, code) = run(&home, "init", &["jetbrains", "--yes"]).await;
    assert_eq!(code, Some(0), "{told}");
    let file = home.user_dir().join(".jetbrains/acp.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let entry = &file["agent_servers"]["Fastness"];
    let args: Vec<&str> = entry["args"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(args[0], "acp");
    assert_eq!(
        Path::new(entry["command"].as_str().unwrap()),
        Path::new(binary())
    );
    // The home passes data directory and model on the command line, and the entry repeats them.
    let expected: Vec<String> = home.arguments("acp");
    assert_eq!(args, expected);
    let mut editor = AcpClient::spawn(&home, "acp", &[]);
    editor.initialize().await;
    let session = editor.new_session().await;
    assert_eq!(editor.prompt(&session, "hi").await.text, "you said hi");
}

#[tokio::test]
async fn a_file_that_init_does_not_understand_is_an_error_and_stays() {
    let home = Home::new(binary(), echo());
    home.write("settings.json", "{ \"a\": }");
    let (told, code) = run(
        &home,
        "init",
        &["vscode", "--yes", "--file", "settings.json"],
    )
    .await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("line 1") && told.contains("hint: "), "{told}");
    assert_eq!(home.read("settings.json").unwrap(), "{ \"a\": }");
    let (told, code) = run(&home, "init", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("no editor that we know was found"), "{told}");
}

#[tokio::test]
async fn completions_and_manual_pages_need_no_home_and_know_every_command() {
    let shell = |name: &str| {
        let mut command = Command::new(binary());
        command.env_clear().args(["completions", name]);
        command
    };
    for (name, mark) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef fastness"),
        ("fish", "complete -c fastness"),
    ] {
        let script = text(&mut shell(name)).await;
        assert!(
            script.contains(mark) && script.contains("sessions"),
            "{name}"
        );
    }
    let script = text(&mut shell("bash")).await;
    let mut bash = Command::new("bash");
    let asked = format!(
        "{script}\nCOMP_WORDS=(fastness ses); COMP_CWORD=1; _fastness fastness ses fastness; echo \"${{COMPREPLY[@]}}\""
    );
    assert_eq!(text(bash.args(["-c", &asked])).await.trim(), "sessions");

    let page = text(Command::new(binary()).env_clear().arg("man")).await;
    assert!(page.contains(".TH fastness 1"), "{page}");
    let folder = tempfile::tempdir().unwrap();
    let mut pages = Command::new(binary());
    pages.env_clear().arg("man").arg("--dir").arg(folder.path());
    text(&mut pages).await;
    assert!(folder.path().join("fastness.1").is_file());
    assert!(folder.path().join("fastness-sessions-export.1").is_file());
}

/// The commands that `--help` lists beneath `path`.
async fn commands(path: &[&str]) -> (String, BTreeSet<String>) {
    let mut command = Command::new(binary());
    let help = text(command.args(path).arg("--help")).await;
    let listed = help.split_once("Commands:\n").map_or("", |(_, rest)| rest);
    let listed = listed.lines().take_while(|line| line.starts_with("  "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help").map(str::to_owned);
    (help.clone(), names.collect())
}

#[tokio::test]
async fn readme_names_every_command_and_each_flag_it_tells_of_is_there() {
    let readme = read("README.md");
    let (_, mut unnamed) = commands(&[]).await;
    let rows = readme
        .lines()
        .filter(|line| line.starts_with("| `fastness "));
    for row in rows {
        let mut cells = row.trim_matches('|').splitn(2, " | ");
        let (typed, told) = (cells.next().unwrap(), cells.next().unwrap());
        let name = typed
            .trim()
            .trim_matches('`')
            .split_whitespace()
            .nth(1)
            .unwrap();
        let (help, below) = commands(&[name]).await;
        assert!(
            unnamed.remove(name),
            "README tells of `{name}` twice, or it is not there"
        );
        let mut all_help = help;
        for action in &below {
            assert!(
                told.contains(&format!("`{action}`")),
                "README leaves out `{name} {action}`"
            );
            all_help += &commands(&[name, action]).await.0;
        }
        for word in row
            .split(['`', ' ', ',', ';', '|'])
            .filter(|word| word.starts_with("--"))
        {
            assert!(all_help.contains(word), "`fastness {name}` has no {word}");
        }
        assert!(all_help.contains("fastness "), "{name} shows no example");
    }
    assert!(unnamed.is_empty(), "README does not tell of {unnamed:?}");
}

#[tokio::test]
async fn the_service_unit_is_understood_and_shut_in() {
    let unit = read("deploy/fastness.service");
    let value = |name: &str| {
        let line = unit
            .lines()
            .find(|line| line.starts_with(&format!("{name}=")));
        line.unwrap_or_else(|| panic!("{name} is missing"))
            .split_once('=')
            .unwrap()
            .1
            .to_owned()
    };
    for (name, expected) in [
        ("User", "fastness"),
        ("NoNewPrivileges", "yes"),
        ("CapabilityBoundingSet", ""),
        ("ProtectSystem", "strict"),
        ("ProtectHome", "yes"),
        ("PrivateTmp", "yes"),
        ("PrivateDevices", "yes"),
        ("RestrictSUIDSGID", "yes"),
        ("SystemCallArchitectures", "native"),
        ("KillMode", "mixed"),
        ("UMask", "0077"),
        ("StateDirectoryMode", "0700"),
    ] {
        assert_eq!(value(name), expected, "{name}");
    }
    // Nothing that our own sandbox needs is taken away.
    for name in [
        "RestrictNamespaces",
        "MemoryDenyWriteExecute",
        "ProtectKernelTunables",
        "ProtectProc",
    ] {
        assert!(!unit.contains(&format!("\n{name}=")), "{name}");
    }
    let start = value("ExecStart");
    let words: Vec<&str> = start.split_whitespace().collect();
    // Help comes last, so that a flag that does not exist is found first.
    text(Command::new(binary()).args(&words[1..]).arg("--help")).await;
    let wrong = Command::new(binary())
        .args(&words[1..])
        .args(["--no-such", "--help"])
        .output()
        .await;
    assert_eq!(wrong.unwrap().status.code(), Some(2));
    if !is_verified(&unit, words[0]).await {
        eprintln!("systemd is not here; the unit was not given to it");
    }
}

/// What systemd itself says of the unit; `false` where there is none.
async fn is_verified(unit: &str, program: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fastness.service");
    let unit = unit
        .replace(program, binary())
        .replace("Documentation=man:fastness(1)\n", "");
    std::fs::write(&path, unit).unwrap();
    let analyze = async |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&path).output().await
    };
    let Ok(verified) = analyze(&["verify", "--man=no", "--recursive-errors=no"]).await else {
        return false;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(
        verified.status.success() && !said.contains("fastness.service:"),
        "{said}"
    );
    let judged = analyze(&[
        "security",
        "--offline=true",
        "--json=short",
        "--threshold=45",
    ])
    .await;
    let judged = judged.unwrap();
    let said = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert!(judged.status.success(), "too exposed: {said}");
    true
}

#[tokio::test]
async fn the_doctor_looks_at_everything_and_says_what_to_do() {
    let home = Home::new(binary(), echo());
    std::fs::create_dir_all(home.user_dir().join(".config/fastness")).unwrap();
    let config = home.user_dir().join(".config/fastness/config.toml");
    std::fs::write(&config, "[mcp.broken]\ncommand = \"no-such-program\"\n").unwrap();
    std::fs::create_dir_all(home.user_dir().join(".jetbrains")).unwrap();
    let stale = json!({"agent_servers": {"Fastness": {"command": "/nowhere/fastness"}}});
    std::fs::write(
        home.user_dir().join(".jetbrains/acp.json"),
        stale.to_string(),
    )
    .unwrap();
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    for part in [
        "settings ",
        "config.toml",
        "model ",
        "data directory",
        "store ",
        "disk ",
        "sandbox ",
        "server ",
        "JetBrains would start /nowhere/fastness, which is not there",
        "tool server",
        "broken is not ready",
        "`fastness mcp list",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // Whatever is broken has a line below it that says what to do.
    let lines: Vec<&str> = told.lines().collect();
    for (at, _) in lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with('✘'))
    {
        assert!(lines[at + 1].contains('→'), "{told}");
    }

    let home = Home::new(binary(), echo())
        .model("openai-chat:x")
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    assert!(
        told.contains("http://127.0.0.1:9 cannot be reached"),
        "{told}"
    );
    assert!(told.contains("is OPENAI_BASE_URL right?"), "{told}");
}

#[tokio::test]
async fn wrong_limit_does_not_hide_the_model_of_the_file() {
    let home = Home::new(binary(), echo()).without_model();
    let settings = "[models]\ndefault = \"magic:x\"\n[limits]\ngrace_m = 5\n";
    crate::hooks::configure(&home, settings);
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    for problem in ["there is no limit `grace_m`", "`magic:x` names no model"] {
        assert!(told.contains(problem), "{told}");
    }
}

#[tokio::test]
async fn doctor_reports_every_check_despite_broken_settings() {
    let home = Home::new(binary(), echo()).env("FASTNESS_LIMITS_STEPS_MAX", "many");
    crate::hooks::configure(&home, "[models]\ndefalt = \"offline\"\n");
    let (told, code) = run(&home, "doctor", &[]).await;
    assert_eq!(code, Some(1), "{told}");
    for expected in [
        "models.defalt is not a setting",
        "`default`",
        "FASTNESS_LIMITS_STEPS_MAX",
        "data directory",
        "sandbox",
        "disk",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

#[tokio::test]
async fn model_key_of_the_file_is_named_as_such() {
    let home = Home::new(binary(), echo()).without_model();
    for key in ["default", "model"] {
        crate::hooks::configure(&home, &format!("[models]\n{key} = \"offline\"\n"));
        let (told, _) = run(&home, "doctor", &[]).await;
        assert!(
            told.contains("(set by default under [models] in /"),
            "{told}"
        );
        assert!(told.contains("config.toml)"), "{told}");
    }
    let (told, _) = run(&home.env("FASTNESS_MODEL", "offline"), "doctor", &[]).await;
    assert!(told.contains("(set by FASTNESS_MODEL)"), "{told}");
}

#[tokio::test]
async fn advised_commands_name_the_data_directory() {
    let home = Home::new(binary(), echo());
    let (told, _) = run(&home, "doctor", &[]).await;
    let serve = format!("`fastness serve --data-dir {}`", home.data_dir().display());
    assert!(told.contains(&serve), "{told}");
    let (told, _) = run(&home, "sessions", &["show", "ffff"]).await;
    let list = format!(
        "`fastness sessions list --data-dir {}`",
        home.data_dir().display()
    );
    assert!(told.contains(&list), "{told}");
    // What is advised can be run as it is written.
    let data_dir = home.data_dir();
    let words = ["sessions", "--data-dir", data_dir.to_str().unwrap(), "list"];
    let output = home.clean(binary()).args(words).output().await.unwrap();
    assert!(output.status.success());
}

#[tokio::test]
async fn local_server_is_not_offered_as_openai() {
    let home = Home::new(binary(), echo()).env("OPENAI_API_KEY", "secret-key");
    let (told, _) = run(&home, "doctor", &[]).await;
    assert!(told.contains("openai:"), "{told}");
    let home = home.env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let (told, _) = run(&home, "doctor", &[]).await;
    assert!(!told.contains("openai:"), "{told}");
}

#[tokio::test]
async fn model_help_names_every_kind_of_model() {
    let home = Home::new(binary(), echo());
    let help = text(home.clean(binary()).args(["ask", "--help"])).await;
    for kind in [
        "anthropic:",
        "openai:",
        "openai-chat:",
        "ollama:",
        "offline",
    ] {
        assert!(help.contains(kind), "{kind}");
    }
}
