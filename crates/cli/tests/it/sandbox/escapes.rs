//! Every attempt of `escapes.py` ends as the table in the guide says.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use domain::limits::COMMAND_SHARED_MEMORY_BYTES_MAX;
use serde_json::json;
use testkit::Home;
use testkit::home::read_file;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, UdpSocket, UnixListener};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{Duration, timeout};

use super::{AS_NOBODY, furnished, give_away, is_root, printed, program_for_all};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/sandbox.md");

/// Small, so that reaching them takes no time.
const PROCESSES: u64 = 300;
const MEMORY_BYTES: u64 = 1024 * 1024 * 1024;
const FILE_BYTES: u64 = 1024 * 1024;
const TOTAL_MEMORY_BYTES: u64 = 1024 * 1024 * 1024;

/// A program of the user with sockets that the kernel's list does not name by where they are. It
/// makes one more when it is asked to.
const DAEMON: &str = r#"
import os, socket, sys
workspace = sys.argv[1]
def listen(name, kind=socket.SOCK_STREAM):
    made = socket.socket(socket.AF_UNIX, kind)
    made.bind(name)
    os.chmod(name, 0o777)
    if kind == socket.SOCK_STREAM:
        made.listen()
    return made
kept = [listen("relative.sock"), listen("first.sock"), listen("datagrams.sock", socket.SOCK_DGRAM)]
os.rename("first.sock", "moved.sock")
os.chdir(workspace)
kept.append(listen("daemon.sock"))
for name in ["ask", "answer"]:
    os.mkfifo(name)
    os.chmod(name, 0o777)
print("ready", flush=True)
with open("ask") as ask:
    ask.read()
kept.append(listen("late.sock"))
open("answer", "w").close()
sys.stdin.read()
"#;

/// Who runs it.
#[derive(Clone, Copy, PartialEq)]
enum User {
    /// Whoever runs the tests: root, on many machines that do nothing else.
    Own,
    Ordinary,
}

/// What there is to reach outside.
struct Outside {
    tcp: TcpListener,
    udp: std::sync::Arc<UdpSocket>,
    _paths: UnixListener,
    _names: std::os::unix::net::UnixListener,
    name: String,
    process: Child,
    /// Keeps the daemon going.
    _input: ChildStdin,
}

impl Outside {
    async fn of(home: &Home, user: User) -> Self {
        use std::os::linux::net::SocketAddrExt as _;
        let path = home.user_dir().join("outside/agent.sock");
        let paths = UnixListener::bind(&path).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        let name = format!("escapes-{}", home.user_dir().display()).replace('/', "-");
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        let udp = std::sync::Arc::new(UdpSocket::bind("127.0.0.1:0").await.unwrap());
        let echo = std::sync::Arc::clone(&udp);
        tokio::spawn(async move {
            let mut bytes = [0; 64];
            while let Ok((count, from)) = echo.recv_from(&mut bytes).await {
                let _ = echo.send_to(&bytes[..count], from).await;
            }
        });
        let mut daemon = match user {
            User::Ordinary if is_root() => {
                let mut command = Command::new(AS_NOBODY[0]);
                command.args(&AS_NOBODY[1..]).arg("/usr/bin/python3");
                command
            }
            User::Own | User::Ordinary => Command::new("/usr/bin/python3"),
        };
        let mut process = daemon
            .args(["-c", DAEMON])
            .arg(home.workspace())
            .current_dir(home.user_dir().join("outside"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = timeout(Duration::from_secs(30), said.next_line()).await;
        assert_eq!(ready.unwrap().unwrap().as_deref(), Some("ready"));
        Self {
            tcp: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            udp,
            _paths: paths,
            _names: std::os::unix::net::UnixListener::bind_addr(&address).unwrap(),
            name,
            _input: process.stdin.take().unwrap(),
            process,
        }
    }
}

/// Runs the attempts in `layer`; gives what came of each.
async fn attempts(layer: &str, user: User) -> BTreeMap<String, String> {
    // Not the one of some version manager in a home, which an ordinary user cannot run.
    testkit::system::need("python3");
    let mut home = furnished("/usr/bin/python3 escapes.py", layer)
        .env("FASTNESS_LIMITS_COMMAND_PROCESSES_MAX", PROCESSES)
        .env("FASTNESS_LIMITS_COMMAND_MEMORY_BYTES_MAX", MEMORY_BYTES)
        .env(
            "FASTNESS_LIMITS_COMMAND_TOTAL_MEMORY_BYTES_MAX",
            TOTAL_MEMORY_BYTES,
        )
        .env("FASTNESS_LIMITS_COMMAND_FILE_BYTES_MAX", FILE_BYTES);
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/escapes.py");
    home.write("escapes.py", &read_file(Path::new(script)).unwrap());
    for (path, text) in [
        ("nested/.git/HEAD", "ref: refs/heads/main\n"),
        ("nested/.git/config", "[core]\n"),
        (".vscode/tasks.json", "{}"),
    ] {
        std::fs::create_dir_all(home.workspace().join(path).parent().unwrap()).unwrap();
        home.write(path, text);
    }
    std::fs::create_dir(home.data_dir()).unwrap();
    std::fs::set_permissions(
        home.data_dir(),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    std::fs::write(home.data_dir().join("token"), "sesame").unwrap();
    if user == User::Ordinary && is_root() {
        give_away(home.workspace().parent().unwrap());
    }
    let outside = Outside::of(&home, user).await;
    let facts = json!({
        "home": home.user_dir(),
        "data": home.data_dir(),
        "outside": home.user_dir().join("outside"),
        "workspace": home.workspace(),
        "tcp": outside.tcp.local_addr().unwrap().port(),
        "udp": outside.udp.local_addr().unwrap().port(),
        "abstract": outside.name,
        "process": outside.process.id(),
        "processes": PROCESSES,
        "memory": MEMORY_BYTES,
        "total_memory": TOTAL_MEMORY_BYTES,
        "shared": COMMAND_SHARED_MEMORY_BYTES_MAX,
        "file": FILE_BYTES,
    });
    home.write("escapes.json", &facts.to_string());
    if user == User::Ordinary && is_root() {
        let program = program_for_all(&home);
        home = home.binary_at(program).under(AS_NOBODY);
        give_away(home.workspace().parent().unwrap());
    }
    let said = printed(&home).await;
    if layer != "off" {
        assert_kept(&home, layer, &said);
    }
    let lines = said.lines().filter_map(|line| line.split_once(": "));
    lines
        .map(|(attempt, outcome)| (attempt.to_owned(), outcome.to_owned()))
        .collect()
}

/// Asserts that what is protected is as it was.
fn assert_kept(home: &Home, layer: &str, said: &str) {
    let hooks = home.workspace().join(".git/hooks");
    assert_eq!(hooks.read_dir().unwrap().count(), 0, "{layer}: {said}");
    assert_eq!(
        home.read(".git/config").as_deref(),
        Some("[core]\n"),
        "{layer}"
    );
    let nested = home.read("nested/.git/config");
    assert_eq!(nested.as_deref(), Some("[core]\n"), "{layer}: {said}");
    assert_eq!(
        home.read(".vscode/tasks.json").as_deref(),
        Some("{}"),
        "{layer}"
    );
    for planted in [".git/commondir", "planted/config", ".envrc"] {
        assert_eq!(home.read(planted), None, "{layer}: {planted}: {said}");
    }
    let mine = home.user_dir().join("outside/mine");
    assert_eq!(read_file(&mine).as_deref(), Some("mine"), "{layer}");
}

/// What the guide's table says: for each attempt its outcome by column.
fn table() -> BTreeMap<String, [String; 3]> {
    let guide = read_file(Path::new(GUIDE)).unwrap();
    let rows = guide.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?;
        let cells: Vec<&str> = cells.split(" | ").collect();
        let [attempt, bubblewrap, landlock, neither] = cells[..] else {
            return None;
        };
        let outcome = |cell: &str| cell.split('`').nth(1).map(str::to_owned);
        let outcomes = [outcome(bubblewrap)?, outcome(landlock)?, outcome(neither)?];
        Some((attempt.to_owned(), outcomes))
    });
    rows.collect()
}

async fn check(layer: &str, column: usize, user: User) {
    let table = table();
    let mut found = attempts(layer, user).await;
    if user == User::Own && layer != "off" && tools::sandbox::can_limit_memory() {
        assert_eq!(found["fill memory that is shared"], "killed", "{layer}");
    }
    for (attempt, outcomes) in &table {
        // Some kernels refuse by themselves.
        if outcomes[column] == "depends" {
            found.insert(attempt.clone(), "depends".to_owned());
        }
    }
    let expected = table.iter();
    let expected: BTreeMap<_, _> = expected
        .map(|(attempt, outcomes)| (attempt.clone(), outcomes[column].clone()))
        .collect();
    assert!(expected.len() > 35, "the guide's table is not there");
    assert_eq!(found, expected, "{layer}");
}

#[tokio::test]
async fn no_attempt_gets_out_of_bubblewrap() {
    check("auto", 0, User::Own).await;
}

#[tokio::test]
async fn no_attempt_of_an_ordinary_user_gets_out_of_bubblewrap() {
    check("auto", 0, User::Ordinary).await;
}

#[tokio::test]
async fn no_attempt_gets_further_with_landlock_alone_than_the_guide_says() {
    check("landlock", 1, User::Own).await;
}

#[tokio::test]
async fn no_attempt_of_an_ordinary_user_gets_further_with_landlock_alone_than_the_guide_says() {
    check("landlock", 1, User::Ordinary).await;
}

#[tokio::test]
async fn without_a_sandbox_the_attempts_of_an_ordinary_user_get_out() {
    check("off", 2, User::Ordinary).await;
}
