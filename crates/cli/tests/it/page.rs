//! The web page, driven in a real browser against the real program.
//!
//! Each story is one browser, told in `crates/cli/tests/peers/page/stories.mjs`; what a browser cannot do it asks
//! of [`Stage`]. Set `FASTNESS_SCREENS` to a folder to have it keep pictures.

mod assets;
mod safety;

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::script::{Script, say, stream, think, tool};
use testkit::{Home, Peer};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};

use crate::support::binary;

/// Far above what a story takes, on a machine that runs all of them at once.
const DEADLINE: Duration = Duration::from_secs(240);

/// Words of a streamed answer, and the time between them.
const TICKS: u32 = 200;
const TICK_MS: u32 = 10;

/// A server that can be killed and started again at the same address, and what stories ask of it.
struct Stage {
    home: Home,
    server: Option<Child>,
    url: String,
}

impl Stage {
    async fn new(script: Script) -> Self {
        let home = Home::new(binary(), script).env("FASTNESS_GREETING", "false");
        let mut stage = Self {
            home,
            server: None,
            url: "http://127.0.0.1:0".to_owned(),
        };
        stage.start().await;
        stage
    }

    async fn start(&mut self) {
        let mut command = self.home.command("serve");
        let listen = self.url.trim_start_matches("http://");
        let workspace = self.home.workspace();
        command.args(["--listen", listen, "--cwd"]).arg(workspace);
        let mut server = command.stderr(Stdio::null()).spawn().unwrap();
        let mut ready = BufReader::new(server.stdout.take().unwrap());
        let mut line = String::new();
        let reading = ready.read_line(&mut line);
        tokio::time::timeout(testkit::program::DEADLINE, reading)
            .await
            .unwrap()
            .unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        ready["url"].as_str().unwrap().clone_into(&mut self.url);
        self.server = Some(server);
    }

    /// Does what a story asks for.
    async fn act(&mut self, asked: &Value) -> Value {
        match asked["do"].as_str().unwrap() {
            "open" => json!({"url": self.run(&["open", "--print"]).await}),
            "file" => json!({"text": self.home.read(asked["name"].as_str().unwrap())}),
            "exists" => {
                let file = self.home.workspace().join(asked["name"].as_str().unwrap());
                json!({"exists": file.exists()})
            }
            "kill" => {
                self.server.take().unwrap().kill().await.unwrap();
                json!({})
            }
            "start" => {
                self.start().await;
                json!({})
            }
            "journal" => json!({"text": self.answers()}),
            other => panic!("a story asks for {other}"),
        }
    }

    /// What a command of this home prints.
    async fn run(&self, arguments: &[&str]) -> String {
        let mut command = self.home.clean(self.home.binary());
        let command = command.args(arguments).arg("--data-dir");
        let output = command.arg(self.home.data_dir()).output().await.unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The texts of all answers in the only session's journal.
    fn answers(&self) -> Vec<Value> {
        let sessions = std::fs::read_dir(self.home.data_dir().join("sessions")).unwrap();
        let journals = sessions.map(|session| session.unwrap().path().join("events.jsonl"));
        let lines = journals.flat_map(|journal| {
            let text = std::fs::read_to_string(journal).unwrap();
            text.lines()
                .map(|line| serde_json::from_str::<Value>(line).unwrap())
                .collect::<Vec<_>>()
        });
        lines
            .filter(|event| event["type"] == "assistant.message")
            .map(|event| event["text"].clone())
            .collect()
    }

    /// Has a browser tell the story called `name`.
    async fn tell(mut self, name: &str, mut plan: Value) {
        plan["story"] = json!(name);
        plan["url"] = json!(self.url);
        plan["pictures"] = json!(screens());
        let installed = testkit::peers::ensure(Peer::Page);
        let mut command = self.home.clean(testkit::peers::script());
        command.args(["run", Peer::Page.name(), &plan.to_string()]);
        command.env("FASTNESS_PEERS_DIR", installed.join(".."));
        let telling = self.follow(command);
        let told = tokio::time::timeout(DEADLINE, telling).await;
        told.unwrap_or_else(|_| panic!("{name} did not end in time"));
    }

    async fn follow(&mut self, mut command: Command) {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut browser = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut answers = browser.stdin.take().unwrap();
        let mut said = browser.stderr.take().unwrap();
        let complaints = tokio::spawn(async move {
            let mut words = String::new();
            let _ = said.read_to_string(&mut words).await;
            words
        });
        let mut asked = BufReader::new(browser.stdout.take().unwrap()).lines();
        while let Some(line) = asked.next_line().await.unwrap() {
            let Ok(asked) = serde_json::from_str::<Value>(&line) else {
                continue;
            };
            let answer = format!("{}\n", self.act(&asked).await);
            answers.write_all(answer.as_bytes()).await.unwrap();
        }
        let status = browser.wait().await.unwrap();
        assert!(status.success(), "{}", complaints.await.unwrap());
    }
}

/// Where pictures go, if somebody wants them.
fn screens() -> Option<PathBuf> {
    std::env::var_os("FASTNESS_SCREENS").map(PathBuf::from)
}

/// An answer with most of what Markdown has.
const RICH: &str = "I will look at **src/lib.rs** and fix the `parse` function:\n\n1. read the notes\n2. change them\n3. run \
    the tests\n\n| file | lines |\n|---|--:|\n| src/lib.rs | 12 |\n| tests/it.rs | 3 |\n\n> The notes come first.\n\n```rust\n\
    fn parse(text: &str) -> Result<Value, Error> {\n    Reader::new(text).value()\n}\n```\n";

#[tokio::test]
async fn a_day_of_work_in_the_browser_with_a_second_pair_of_eyes() {
    let plan = json!([
        {"content": "Read the notes", "status": "completed"},
        {"content": "Change the parser", "status": "in_progress"},
        {"content": "Run the tests", "status": "pending"},
    ]);
    let rejected = "rm kept.txt";
    let script = Script::new()
        .call([
            think("The notes say where the parser is wrong.\nI read them first."),
            say(RICH),
            tool("todo", json!({"items": plan})),
            tool("read", json!({"path": "notes.txt"})),
        ])
        .call([
            say("Now I change the notes."),
            tool("write", json!({"path": "notes.txt", "content": "first line\nsecond line changed\nthird line\n"})),
        ])
        .call([tool("bash", json!({"command": rejected}))])
        .call([say("I leave it then.")])
        .call([stream("tick ", TICKS, TICK_MS), say("the end of it")])
        .call([stream("tock ", 6_000, TICK_MS)])
        .call([tool("ask_user", json!({"question": "Which colour?", "options": ["green", "blue"]}))])
        .call([say("You said ${result}")]);
    let stage = Stage::new(script).await;
    stage.home.write("notes.txt", "first line\nsecond line\n");
    stage.home.write("kept.txt", "keep me\n");
    let first = "Fix the parser as the notes say";
    let plan = json!({"first": first, "rejected": rejected, "ticks": TICKS});
    stage.tell("work", plan).await;
}

#[tokio::test]
async fn a_server_that_is_killed_in_the_middle_of_a_word_leaves_nothing_lost_or_doubled() {
    let script = Script::new().call([stream("tick ", TICKS, TICK_MS), say("the end of it")]);
    let stage = Stage::new(script).await;
    stage.tell("restart", json!({"ticks": TICKS})).await;
}

#[tokio::test]
async fn what_a_model_a_file_and_a_tool_say_stays_text_and_a_guest_only_looks() {
    let markup = "<img src=x onerror=\"window.pwned=1;alert(1)\"><script>window.pwned=1</script>";
    let text = format!(
        "{markup} ![x](http://127.0.0.1:9/pixel.png) [click](javascript:window.pwned=1) <iframe src=\"http://127.0.0.1:9/\">\n\n\
         ```html\n{markup}\n```\n\n| {markup} | b |\n|---|---|\n| [x](data:text/html,{markup}) | b |\n"
    );
    let name = "<img src=x onerror=alert(1)>.txt";
    let script = Script::new()
        .call([
            think(markup),
            say(&text),
            tool("read", json!({"path": name})),
            tool(
                "write",
                json!({"path": format!("new-{name}"), "content": markup}),
            ),
        ])
        .call([say("It is over.")]);
    let stage = Stage::new(script).await;
    stage.home.write(name, markup);
    let plan = json!({"first": format!("look at {markup}")});
    stage.tell("hostile", plan).await;
}
