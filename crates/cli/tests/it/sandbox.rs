//! Commands in their sandbox, through the real program: what they can do, and every way out that we
//! know, with each layer, as root and as an ordinary user.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};
use tokio::net::TcpListener;
use tokio::time::{Duration, timeout};

use crate::support::{binary, serve_with};

mod escapes;
mod git;
mod hiding;
mod piped;

/// An ordinary user, on every machine.
const NOBODY: u32 = 65_534;

/// As that user.
const AS_NOBODY: &[&str] = &[
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// The layers, by the setting that asks for them.
const LAYERS: [&str; 2] = ["auto", "landlock"];

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A model that runs `command` and repeats what it was told.
fn runner(command: &str) -> Script {
    Script::new()
        .call([tool("bash", json!({"command": command}))])
        .call([say("${result}")])
}

/// A home in which commands run in `layer`; with things of a person in it.
fn furnished(command: &str, layer: &str) -> Home {
    if layer == "auto" {
        testkit::system::need("bwrap");
    }
    let home = Home::new(binary(), runner(command)).env("FASTNESS_SANDBOX_MODE", layer);
    let person = home.user_dir();
    std::fs::create_dir(person.join("outside")).unwrap();
    for (file, text) in [
        (".ssh/id_ed25519", "a key"),
        (".aws/credentials", "a key"),
        (".cargo/credentials.toml", "a token"),
        (".cargo/config.toml", "[registry]\ntoken = \"a token\"\n"),
        (".cache/unheard-of/token", "a token"),
        (".gradle/init.d/private.gradle", "a token"),
        (".local/share/uv/credentials/credentials.toml", "a token"),
        (".dotnet/corefx/cryptography/x509stores/my/key.pfx", "a key"),
        (".unheard-of/token", "a token"),
        (".bashrc", "alias ll='ls -l'"),
        ("outside/mine", "mine"),
    ] {
        std::fs::create_dir_all(person.join(file).parent().unwrap()).unwrap();
        std::fs::write(person.join(file), text).unwrap();
    }
    let hooks = home.workspace().join(".git/hooks");
    std::fs::create_dir_all(&hooks).unwrap();
    home.write(".git/HEAD", "ref: refs/heads/main\n");
    home.write(".git/config", "[core]\n");
    home
}

/// Gives everything in `path` to the ordinary user.
fn give_away(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    let is_dir = path.symlink_metadata().unwrap().is_dir();
    for entry in is_dir
        .then(|| path.read_dir().unwrap())
        .into_iter()
        .flatten()
    {
        give_away(&entry.unwrap().path());
    }
}

/// The program where everybody can run it.
fn program_for_all(home: &Home) -> PathBuf {
    let copy = home.user_dir().join("fastness");
    std::fs::copy(binary(), &copy).unwrap();
    std::fs::set_permissions(&copy, PermissionsExt::from_mode(0o755)).unwrap();
    copy
}

/// What the command of `home` printed, run by `fastness ask` with everything allowed.
async fn printed(home: &Home) -> String {
    let mut command = home.command("ask");
    command.args(["--allow", "bash", "go"]).stdin(Stdio::null());
    let output = timeout(Duration::from_secs(120), command.output()).await;
    let output = output.unwrap().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn d_05_a_command_builds_in_its_workspace_and_reaches_nothing_else() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!(
        "cat ~/.ssh/id_ed25519; cat ~/outside/mine; echo new > ~/outside/new; echo x >> ~/.bashrc; \
         (exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached; \
         cc -o program program.c && ./program; \
         git init -q made && cd made && git -c user.name=A -c user.email=a@b \
         commit -q --allow-empty -m one && git log --oneline --format=%s; \
         mktemp > ../where && cat ../where"
    );
    for layer in LAYERS {
        let home = furnished(&command, layer);
        home.write(
            "program.c",
            "#include <stdio.h>\nint main(void) { puts(\"built\"); }\n",
        );
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Allow);
        let session = client.new_session().await;
        let done = client.prompt(&session, "go").await;
        let said = done.text.as_str();
        assert!(
            !said.contains("a key") && !said.contains("reached"),
            "{layer}: {said}"
        );
        for expected in ["mine", "\nbuilt\n", "\none\n"] {
            assert!(said.contains(expected), "{layer}: {expected}: {said}");
        }
        let person = server.home().user_dir();
        assert!(!person.join("outside/new").exists(), "{layer}: {said}");
        assert_eq!(
            std::fs::read(person.join(".bashrc")).unwrap(),
            b"alias ll='ls -l'"
        );
        let temporary = server.home().read("where").unwrap();
        assert!(!temporary.trim().is_empty(), "{layer}: {said}");
        assert!(
            !Path::new(temporary.trim()).exists(),
            "{layer}: {temporary}"
        );
    }
}

#[tokio::test]
async fn ordinary_work_goes_on_without_set_id_bits() {
    let command = "git init -q made && cd made && git -c user.name=A -c user.email=a@b \
                   commit -q --allow-empty -m one && git log --format=%s; cd ..; \
                   mkdir shared/new && stat -c 'inherits %A' shared/new; \
                   cp -a plain copied && echo copied; cp -a shared copy || ls copy; \
                   tar cf t.tar plain && mkdir x && tar xf t.tar -C x && ls x/plain; \
                   install -m 755 plain/a b && echo installed";
    for layer in LAYERS {
        let home = furnished(command, layer);
        for directory in ["plain", "shared"] {
            std::fs::create_dir(home.workspace().join(directory)).unwrap();
            home.write(&format!("{directory}/a"), "x");
        }
        let shared = home.workspace().join("shared");
        std::fs::set_permissions(&shared, PermissionsExt::from_mode(0o2775)).unwrap();
        let server = Program::serve_in(home).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Allow);
        let session = client.new_session().await;
        let said = client.prompt(&session, "go").await.text;
        for expected in [
            "one\n",
            "inherits drwxr-sr-x\n",
            "copied\n",
            "copied\ncp: ",
            "\na\nnew\na\n",
            "installed",
        ] {
            assert!(said.contains(expected), "{layer}: {expected}: {said}");
        }
    }
}

#[tokio::test]
async fn unix_sockets_work_once_the_operator_grants_them() {
    let command = "/usr/bin/python3 -c 'import socket; \
                   a = socket.socket(socket.AF_UNIX); a.bind(\"own.sock\"); a.listen(); \
                   b = socket.socket(socket.AF_UNIX); b.connect(\"own.sock\"); print(\"met\")'";
    let home = furnished(command, "auto");
    assert!(printed(&home).await.contains("PermissionError"));
    let home = home.env("FASTNESS_SANDBOX_UNIX_SOCKETS", "true");
    assert_eq!(printed(&home).await, "met\n");
}

#[tokio::test]
async fn the_network_is_reached_once_the_operator_grants_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo reached");
    for layer in LAYERS {
        let home = furnished(&command, layer).env("FASTNESS_SANDBOX_NETWORK", "true");
        assert_eq!(printed(&home).await, "reached\n", "{layer}");
    }
}

#[tokio::test]
async fn the_data_directory_is_out_of_sight_even_in_a_root() {
    for layer in LAYERS {
        let home = furnished("cat state/token; echo x > state/token; echo over", layer);
        let data = home.workspace().join("state");
        std::fs::create_dir(&data).unwrap();
        std::fs::set_permissions(&data, PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::write(data.join("token"), "sesame").unwrap();
        std::fs::set_permissions(data.join("token"), PermissionsExt::from_mode(0o600)).unwrap();
        let model = format!("script:{}", home.script_path().display());
        let mut command = home.clean(binary());
        command.args(["ask", "--allow", "bash", "--model", &model, "--data-dir"]);
        let output = command.arg(&data).arg("go").output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            said.contains("over") && !said.contains("sesame"),
            "{layer}: {said}"
        );
        let token = std::fs::read(data.join("token")).unwrap();
        assert_eq!(token, b"sesame", "{layer}");
    }
}

#[tokio::test]
async fn d_04_a_project_cannot_open_its_own_sandbox() {
    let home = furnished("cat ~/.ssh/id_ed25519; echo over", "auto");
    home.write(
        "fastness.toml",
        "[sandbox]\nmode = \"off\"\nread = [\"~/.ssh\"]\nhide = [\"~/outside\"]\n",
    );
    home.write(".git/HEAD", "ref: refs/heads/main\n");
    let said = printed(&home).await;
    assert!(said.contains("over") && !said.contains("a key"), "{said}");
    home.set_script(runner("cat ~/outside/mine; echo over"));
    let said = printed(&home).await;
    assert!(
        !said.contains("mine\n"),
        "what narrows needs no approval: {said}"
    );
}

#[tokio::test]
async fn f_36_a_fork_bomb_stays_within_its_bounds_and_the_server_answers() {
    let bomb = "bomb() { bomb | bomb & }; echo lit; bomb; while :; do sleep 1; done";
    for layer in LAYERS {
        let settings = [
            ("FASTNESS_SANDBOX_MODE", layer),
            ("FASTNESS_LIMITS_COMMAND_PROCESSES_MAX", "200"),
        ];
        let server = serve_with(runner(bomb), &settings).await;
        let mut client = AcpClient::connect_ws(&server).await;
        client.on_permission(Choice::Allow);
        let session = client.new_session().await;
        let running = client.start_prompt(&session, "go").await;
        let is_over = |update: &testkit::Update| {
            let text = &update.update["content"][0]["content"]["text"];
            text.as_str().is_some_and(|text| text.contains("fork"))
        };
        // It says that it cannot fork any more.
        client.updates_until(is_over).await;
        let mut other = AcpClient::connect_ws(&server).await;
        let asked = timeout(Duration::from_secs(10), other.new_session()).await;
        assert!(asked.is_ok(), "{layer}: the server does not answer");
        client.cancel(&session).await;
        let done = client.finish_prompt(&session, &running).await.unwrap();
        assert_eq!(done.stop_reason, "cancelled", "{layer}");
    }
}

#[tokio::test]
async fn d_04_without_a_sandbox_an_allowed_command_is_asked_about_all_the_same() {
    // A filter that makes the kernel one without Landlock: load the number of the call; if it is
    // 444, refuse it with ENOSYS; allow all else.
    let steps: [(u16, u8, u8, u32); 4] = [
        (0x20, 0, 0, 0),
        (0x15, 0, 1, 444),
        (0x06, 0, 0, 0x0005_0026),
        (0x06, 0, 0, 0x7fff_0000),
    ];
    let filter = steps.iter().flat_map(|(code, yes, no, value)| {
        let mut bytes = code.to_ne_bytes().to_vec();
        bytes.extend([*yes, *no]);
        bytes.extend(value.to_ne_bytes());
        bytes
    });
    let filter: Vec<u8> = filter.collect();
    let home = Home::new(binary(), runner("touch made"));
    std::fs::write(home.user_dir().join("filter"), filter).unwrap();
    testkit::system::need("bwrap");
    let start = format!(
        "exec bwrap --die-with-parent --dev-bind / / --seccomp 9 -- /usr/bin/env PATH={} \"$@\" 9< {}",
        home.user_dir().display(),
        home.user_dir().join("filter").display()
    );
    for program in ["bash", "touch"] {
        let found = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(program));
        let found = found.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(found, home.user_dir().join(program)).unwrap();
    }
    let home = home.under(&["sh", "-c", &start, "sh"]);
    let doctor = home.command("doctor").output().await.unwrap();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        doctor.contains("none (bubblewrap is not installed"),
        "{doctor}"
    );
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    let mode = json!({"sessionId": session, "modeId": "bypass"});
    client.call("session/set_mode", mode).await.unwrap();
    let done = client.prompt(&session, "go").await;
    assert!(done.text.contains("was not run"), "{}", done.text);
    assert_eq!(server.home().read("made"), None);
    let mut asked = client.requests().iter();
    let asked = asked.find(|request| request.method == "session/request_permission");
    let asked = &asked.unwrap().params;
    assert_eq!(asked["toolCall"]["title"], "touch made (without a sandbox)");
    let options = asked["options"].as_array().unwrap();
    assert!(
        options
            .iter()
            .all(|option| option["kind"] != "allow_always")
    );
}

#[tokio::test]
async fn doctor_says_which_sandbox_there_is() {
    for (layer, expected) in [
        ("auto", "bubblewrap + Landlock"),
        ("landlock", "Landlock only"),
        ("off", "off, by the settings"),
    ] {
        let home = furnished("true", layer);
        let output = home.command("doctor").output().await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(expected), "{layer}: {said}");
    }
}
