//! Whole tasks in a small repository, through the real program: a failing test is mended, a name is
//! changed in all files, and what would do harm does not happen.

use serde_json::{Value, json};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::hooks::configure;
use crate::support::binary;

const TESTS: &str = "/usr/bin/python3 -B -m unittest -q";

/// A repository with these files, all of them committed.
async fn repository(script: Script, files: &[(&str, &str)]) -> Home {
    testkit::system::need("python3");
    let home = Home::new(binary(), script);
    for (name, text) in files {
        let path = home.workspace().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let person = ["-c", "user.name=A", "-c", "user.email=a@b"];
    for words in [
        &["init", "-q"][..],
        &["add", "-A"],
        &["commit", "-qm", "one"],
    ] {
        let mut git = home.clean("git");
        let output = git.args(person).args(words).output().await.unwrap();
        assert!(output.status.success(), "git {words:?}");
    }
    home
}

fn edit(path: &str, old: &str, new: &str) -> Value {
    tool("edit", json!({"path": path, "old": old, "new": new}))
}

fn bash(command: &str) -> Value {
    tool("bash", json!({"command": command}))
}

fn read(path: &str) -> Value {
    tool("read", json!({"path": path}))
}

/// Each call of a session: its tool, how it ended, what it told, and the event that let it run.
struct Call {
    tool: String,
    status: String,
    text: String,
    used: u64,
    answered: Option<u64>,
    ended: u64,
}

/// The calls of a session, from its journal.
fn calls(home: &Home, session: &str) -> Vec<Call> {
    let events = home.events(session);
    let of = |kind: &str| -> Vec<&Value> {
        events
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    };
    let find = |kind: &str, key: &str, value: &Value| {
        of(kind).into_iter().find(|event| event[key] == *value)
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let uses = of("tool.use").into_iter();
    uses.map(|used| {
        let result = find("tool.result", "callId", &used["callId"]).unwrap();
        let asked = find("permission.asked", "callId", &used["callId"]);
        let answered = asked.and_then(|asked| find("permission.answered", "id", &asked["id"]));
        Call {
            tool: text(&used["name"]),
            status: text(&result["status"]),
            text: text(&result["text"]),
            used: used["seq"].as_u64().unwrap(),
            answered: answered.and_then(|answered| answered["seq"].as_u64()),
            ended: result["seq"].as_u64().unwrap(),
        }
    })
    .collect()
}

/// What `fastness sessions show` prints.
async fn shown(home: &Home, session: &str) -> String {
    let mut command = home.command("sessions");
    let output = command.args(["show", session]).output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn d_05_a_failing_test_is_mended() {
    let wrong = "def leap(year):\n    return year % 4 == 0\n";
    let tests = "import unittest\n\nfrom leap import leap\n\n\nclass Leap(unittest.TestCase):\n    \
                 def test_centuries(self):\n        self.assertFalse(leap(1900))\n        \
                 self.assertTrue(leap(2000))\n";
    let right = "year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)";
    let script = Script::new()
        .call([bash(TESTS)])
        .call([
            tool("grep", json!({"pattern": "def leap"})),
            read("leap.py"),
        ])
        .call([edit("leap.py", "year % 4 == 0", right)])
        .call([bash(TESTS)])
        .call([bash("git diff --stat")])
        .call([say("mended")]);
    let files = [("leap.py", wrong), ("test_leap.py", tests)];
    let server = Program::serve_in(repository(script, &files).await).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "mend the tests").await;
    assert_eq!(done.text, "mended");
    let calls = calls(server.home(), &session);
    let told: Vec<(&str, &str)> = calls
        .iter()
        .map(|call| (call.tool.as_str(), call.status.as_str()))
        .collect();
    assert_eq!(
        told,
        [
            ("bash", "failed"),
            ("grep", "completed"),
            ("read", "completed"),
            ("edit", "completed"),
            ("bash", "completed"),
            ("bash", "completed"),
        ]
    );
    assert!(
        calls[0].text.contains("FAILED (failures=1)"),
        "{}",
        calls[0].text
    );
    assert!(
        calls[1].text.contains("leap.py:1:def leap(year):"),
        "{}",
        calls[1].text
    );
    assert!(calls[4].text.contains("OK"), "{}", calls[4].text);
    assert!(
        calls[5].text.contains("1 file changed"),
        "{}",
        calls[5].text
    );
    let mended = format!("def leap(year):\n    return {right}\n");
    assert_eq!(server.home().read("leap.py"), Some(mended));
    // The journal says of each who let it run, before it ran.
    let shown = shown(server.home(), &session).await;
    for call in calls {
        let asks = matches!(call.tool.as_str(), "bash" | "edit");
        assert_eq!(call.answered.is_some(), asks, "{}", call.tool);
        if let Some(answered) = call.answered {
            assert!(
                call.used < answered && answered < call.ended,
                "{}",
                call.tool
            );
            let chain = format!("allowed by local in event {answered}");
            assert!(shown.contains(&chain), "{shown}");
        }
    }
}

#[tokio::test]
async fn d_05_a_name_is_changed_in_all_files_and_nowhere_else() {
    let files = [
        (
            "shop/price.py",
            "def total(items):\n    return sum(items)\n",
        ),
        (
            "shop/cart.py",
            "from shop.price import total\n\n\ndef pay(items):\n    return total(items)\n",
        ),
        (
            "test_shop.py",
            "import unittest\n\nfrom shop.cart import pay\nfrom shop.price import total\n\n\n\
          class Shop(unittest.TestCase):\n    def test_pay(self):\n        self.assertEqual(pay([1, 2]), total([3]))\n",
        ),
        ("notes/subtotal.txt", "The subtotal is not the total.\n"),
    ];
    let everywhere = |path: &str| {
        let input = json!({"path": path, "old": "total", "new": "sum_of", "replaceAll": true});
        tool("edit", input)
    };
    let script = Script::new()
        .call([
            tool("glob", json!({"pattern": "**/*.py"})),
            tool("grep", json!({"pattern": r"\btotal\b", "glob": "*.py"})),
        ])
        .call([
            read("shop/price.py"),
            read("shop/cart.py"),
            read("test_shop.py"),
        ])
        .call([
            edit("shop/price.py", "total(items)", "sum_of(items)"),
            everywhere("shop/cart.py"),
            everywhere("test_shop.py"),
        ])
        .call([
            tool("grep", json!({"pattern": r"\btotal\b", "glob": "*.py"})),
            bash(TESTS),
        ])
        .call([bash("git status --short")])
        .call([say("renamed")]);
    let server = Program::serve_in(repository(script, &files).await).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "rename total to sum_of").await;
    assert_eq!(done.text, "renamed");
    let calls = calls(server.home(), &session);
    for call in &calls {
        assert_eq!(call.status, "completed", "{}: {}", call.tool, call.text);
    }
    assert_eq!(calls[0].text, "shop/cart.py\nshop/price.py\ntest_shop.py\n");
    assert_eq!(calls[1].text.lines().count(), 5, "{}", calls[1].text);
    assert_eq!(calls[8].text, "[no matches]");
    assert!(calls[9].text.contains("OK"), "{}", calls[9].text);
    let changed = " M shop/cart.py\n M shop/price.py\n M test_shop.py\n";
    assert_eq!(calls[10].text, changed, "and nothing else");
    for (name, text) in files {
        let expected = match name.ends_with(".py") {
            true => text.replace("total", "sum_of"),
            false => text.to_owned(),
        };
        assert_eq!(server.home().read(name), Some(expected), "{name}");
    }
    assert_eq!(client.requests().len(), 5, "three edits, two commands");
}

#[tokio::test]
async fn d_05_a_dangerous_command_does_nothing_however_it_is_put() {
    let dangerous = |home: &str| {
        [
            format!("rm -rf {home}"),
            format!("git status; rm -rf {home}"),
            format!("true && (cd / && rm -r -f {home})"),
            format!("echo $(rm -rf {home})"),
            format!("sh -c 'rm -rf {home}'"),
            format!("find {home} -delete"),
            "git push --force; rm -rf .git".to_owned(),
        ]
    };
    let home = repository(Script::says(""), &[("a.txt", "mine\n")]).await;
    let outside = home.user_dir().join("precious");
    std::fs::write(&outside, "precious\n").unwrap();
    let commands = dangerous(home.user_dir().to_str().unwrap());
    let script = commands
        .iter()
        .fold(Script::new(), |script, command| {
            script.call([bash(command)])
        })
        // Without `rm`, but it may do the same for all that can be seen of it.
        .call([bash(&format!(
            "python3 -c 'import os; os.remove(\"{}\")'",
            outside.display()
        ))])
        .call([say("I did not.")]);
    home.set_script(script);
    // Even where everything is allowed, what is denied is.
    let rules =
        "[permissions]\nallow = [\"bash\"]\ndeny = [\"bash(rm *)\", \"bash(find * -delete)\"]\n";
    configure(&home, rules);
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let done = client.prompt(&session, "clean up").await;
    assert_eq!(done.text, "I did not.");
    let calls = calls(server.home(), &session);
    let (last, denied) = calls.split_last().unwrap();
    assert_eq!(denied.len(), commands.len());
    for (call, command) in denied.iter().zip(&commands) {
        assert_eq!(call.status, "denied", "{command}: {}", call.text);
    }
    assert_eq!(last.status, "denied", "{}", last.text);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "precious\n");
    assert_eq!(server.home().read("a.txt").as_deref(), Some("mine\n"));
    assert!(server.home().workspace().join(".git/HEAD").exists());
}
