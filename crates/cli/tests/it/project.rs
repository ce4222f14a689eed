//! What a project brings along: instructions, skills, commands, settings; and what a hostile one
//! cannot do with them.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use domain::limits::{LIBRARY_ENTRIES_MAX, LIBRARY_FILE_BYTES_MAX};
use serde_json::{Value, json};
use testkit::model::{RecordingModel, Speech};
use testkit::script::{Script, say, tool};
use testkit::{AcpClient, Choice, Home, Program};

use crate::hooks::{configure, hook};
use crate::support::{binary, serve};

/// Writes a file of the workspace and the folders that it lies in.
fn write(home: &Home, name: &str, text: &str) {
    let path = home.workspace().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// What `fastness COMMAND` prints to stdout and stderr, and its exit code.
pub(crate) async fn run(home: &Home, command: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let output = home
        .command(command)
        .args(arguments)
        .output()
        .await
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8(text).unwrap(), output.status.code())
}

#[tokio::test]
async fn d_10_instructions_stand_in_every_request_and_follow_the_files() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    write(&home, ".git/HEAD", "");
    write(&home, "AGENTS.md", "always whisper");
    write(&home, "sub/CLAUDE.md", "never shout");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let sub = server.home().workspace().join("sub");
    let session = client.new_session_in(&sub).await.unwrap();
    let session = session["sessionId"].as_str().unwrap().to_owned();
    client.prompt(&session, "go").await;
    client.prompt(&session, "again").await;
    let system = |index: usize| model.requests()[index]["messages"][0]["content"].to_string();
    assert!(system(0).contains("always whisper"), "{}", system(0));
    let (far, near) = (
        system(0).find("always whisper"),
        system(0).find("never shout"),
    );
    assert!(far < near, "the nearest comes last: {}", system(0));
    assert_eq!(system(0), system(1), "a cache of it stays good");
    write(server.home(), "AGENTS.md", "always sing");
    client.prompt(&session, "once more").await;
    assert!(system(2).contains("always sing") && !system(2).contains("whisper"));
}

#[tokio::test]
async fn d_10_skills_are_listed_and_loaded_without_asking_in_every_mode() {
    let script = Script::new()
        .call([tool("skill", json!({"name": "review"}))])
        .call([say("${result}")])
        .call([tool("skill", json!({"name": "nothing"}))])
        .call([say("${result}")]);
    let home = Home::new(binary(), script);
    write(
        &home,
        ".claude/skills/review/SKILL.md",
        "---\ndescription: Reviews\n---\nLook twice.",
    );
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Reject);
    let session = client.new_session().await;
    let plan = json!({"sessionId": session, "modeId": "plan"});
    client.call("session/set_mode", plan).await.unwrap();
    let answer = client.prompt(&session, "go").await;
    assert!(answer.text.ends_with("Look twice."), "{}", answer.text);
    let answer = client.prompt(&session, "go").await;
    assert!(
        answer.text.contains("no skill called nothing"),
        "{}",
        answer.text
    );
    assert!(client.requests().is_empty());
}

#[tokio::test]
async fn d_10_commands_and_skills_are_offered_on_every_attach() {
    let home = Home::new(binary(), Script::says("hi"));
    write(
        &home,
        ".claude/commands/fix.md",
        "---\ndescription: Fixes\nargument-hint: ISSUE\n---\nFix",
    );
    write(
        &home,
        ".agents/skills/review/SKILL.md",
        "---\ndescription: Reviews\n---\nLook",
    );
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let offered = |update: &testkit::Update| {
        let update = &update.update;
        (update["sessionUpdate"] == "available_commands_update")
            .then(|| update["availableCommands"].clone())
    };
    let expected = |commands: &Value| {
        let names: Vec<&str> = commands
            .as_array()
            .unwrap()
            .iter()
            .map(|command| command["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["compact", "fix", "review"]);
        assert_eq!(commands[1]["description"], "Fixes");
        assert_eq!(commands[1]["input"]["hint"], "ISSUE");
    };
    let updates = client
        .updates_until(|update| offered(update).is_some())
        .await;
    expected(&offered(updates.last().unwrap()).unwrap());
    let mut second = AcpClient::connect_ws(&server).await;
    second.load_session(&session).await.unwrap();
    let updates = second
        .updates_until(|update| offered(update).is_some())
        .await;
    expected(&offered(updates.last().unwrap()).unwrap());
}

#[tokio::test]
async fn d_10_a_typed_command_is_expanded_for_the_model_and_stays_so() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    write(&home, ".claude/commands/fix.md", "Fix issue $1 with care.");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "/fix 42").await;
    client.prompt(&session, "/unheard of").await;
    let last = |index: usize| {
        let request = &model.requests()[index];
        let messages = request["messages"].as_array().unwrap();
        messages.last().unwrap().to_string()
    };
    assert!(last(0).contains("Fix issue 42 with care."), "{}", last(0));
    assert!(last(1).contains("/unheard of"), "{}", last(1));
    let events = server.home().events(&session);
    let typed = events
        .iter()
        .find(|event| event["type"] == "user.message")
        .unwrap();
    assert_eq!(typed["text"], "/fix 42");
    // What was sent stays what was sent, whatever becomes of the file.
    let other = "---\ndescription: Fixes\n---\nBurn it down.";
    write(server.home(), ".claude/commands/fix.md", other);
    let server = server.restart().await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.load_session(&session).await.unwrap();
    client.prompt(&session, "go on").await;
    let request = model.requests()[2].to_string();
    assert!(request.contains("Fix issue 42 with care."), "{request}");
    assert!(!request.contains("Burn it down"), "{request}");
}

#[tokio::test]
async fn d_10_the_model_asks_before_it_uses_a_command() {
    let script = Script::new()
        .call([tool("slash_command", json!({"name": "/fix", "args": "7"}))])
        .call([say("${result}")]);
    let home = Home::new(binary(), script);
    write(&home, ".claude/commands/fix.md", "Fix $ARGUMENTS!");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    client.on_permission(Choice::Allow);
    let session = client.new_session().await;
    let answer = client.prompt(&session, "go").await;
    assert_eq!(answer.text, "Fix 7!");
    assert_eq!(client.requests()[0].params["toolCall"]["title"], "/fix 7");
}

#[tokio::test]
async fn without_skills_and_commands_there_are_no_tools_for_them() {
    let model = RecordingModel::start().await;
    let server = Program::serve_in(model.home(binary())).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    let tools = model.requests()[0]["tools"].to_string();
    assert!(
        tools.contains("\"read\"") && !tools.contains("\"skill\""),
        "{tools}"
    );
}

#[tokio::test]
async fn d_10_a_hostile_project_neither_leaks_nor_holds_anything_up() {
    let model = RecordingModel::start().await;
    let home = model.home(binary());
    let place = home.workspace();
    std::fs::write(place.parent().unwrap().join("outside.md"), "outside secret").unwrap();
    write(&home, ".git/HEAD", "");
    write(&home, "AGENTS.md", &"long ".repeat(1_000_000));
    symlink("/etc/passwd", place.join("CLAUDE.md")).unwrap();
    for number in 0..300 {
        write(
            &home,
            &format!(".claude/skills/s{number}/SKILL.md"),
            "---\nname: [[[\n---\nx",
        );
    }
    symlink("../../../outside.md", place.join(".claude/skills/leak.md")).unwrap();
    write(
        &home,
        ".claude/skills/bomb/SKILL.md",
        &format!("---\n{}", "a: &a [*a,*a]\n".repeat(100_000)),
    );
    let mut deep = place.join(".claude/commands");
    for _ in 0..100 {
        deep.push("d");
    }
    std::fs::create_dir_all(&deep).unwrap();
    symlink(".", place.join(".claude/commands/loop")).unwrap();
    symlink(
        "../../../outside.md",
        place.join(".claude/commands/leak.md"),
    )
    .unwrap();
    symlink(home.data_dir(), place.join(".agents")).unwrap();
    write(&home, "fastness.toml", &"[".repeat(60_000));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let begun = Instant::now();
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    client.prompt(&session, "/leak").await;
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "{:?}",
        begun.elapsed()
    );
    for request in model.requests() {
        let request = request.to_string();
        assert!(request.len() < 300_000, "{}", request.len());
        assert!(!request.contains("root:") && !request.contains("outside secret"));
    }
    let peak = server.resident_bytes_peak();
    assert!(peak < 300 * 1024 * 1024, "{peak}");
    let events = server.home().events(&session);
    let is_told = |event: &Value| {
        event["kind"] == "project" && event["text"].to_string().contains("not used")
    };
    assert!(events.iter().any(is_told), "the person is told of the file");
}

#[tokio::test]
async fn a_project_file_that_is_wrong_is_told_of_and_the_session_works() {
    let server = serve(Script::says("hi")).await;
    server
        .home()
        .write("fastness.toml", "[contxt]\nstyle = \"x\"\n");
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    assert_eq!(client.prompt(&session, "go").await.text, "hi");
    let events = server.home().events(&session);
    let notice = events
        .iter()
        .find(|event| event["kind"] == "project")
        .unwrap();
    let text = notice["text"].as_str().unwrap();
    assert!(
        text.contains("the nearest one that is known is `context`"),
        "{text}"
    );
    let (text, code) = run(server.home(), "doctor", &[]).await;
    assert!(text.contains("`context`"), "{text}");
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn a_client_that_hears_notices_is_told_what_waits_for_approval_once() {
    let home = Home::new(binary(), Script::says("hi"));
    home.write("fastness.toml", &hook("Stop", "true"));
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::dial_ws(&server.acp_url(), Some(server.token()))
        .await
        .unwrap();
    let capabilities = json!({"session": {"notices": {}}});
    client.initialize_with(capabilities).await;
    let session = client
        .new_session_in(&server.home().workspace())
        .await
        .unwrap();
    let session = session["sessionId"].as_str().unwrap().to_owned();
    let told = |answer: &testkit::Answer| {
        let notices = answer
            .updates
            .iter()
            .filter(|update| update.kind == "notice");
        let titles = notices.map(|update| update.update["title"].to_string());
        titles.collect::<Vec<_>>()
    };
    let first = told(&client.prompt(&session, "go").await);
    assert!(
        first.len() == 1 && first[0].contains("fastness approve"),
        "{first:?}"
    );
    assert!(told(&client.prompt(&session, "go").await).is_empty());
    let mut deaf = AcpClient::connect_ws(&server).await;
    let replayed = deaf.load_session(&session).await.unwrap();
    assert!(replayed.iter().all(|update| update.kind != "notice"));
}

#[tokio::test]
async fn approving_shows_first_asks_somebody_and_holds_for_what_was_shown() {
    let home = Home::new(binary(), Script::says("hi"));
    let (text, code) = run(&home, "approve", &[]).await;
    assert!(text.contains("there is no fastness.toml"), "{text}");
    assert_eq!(code, Some(1));
    let agents = "[agents.tester]\nprompt = \"Test\"\n[network]\nallow = [\"127.0.0.1:1\"]\n";
    home.write("fastness.toml", &(hook("Stop", "make test") + agents));
    let (text, code) = run(&home, "approve", &[]).await;
    for line in [
        "run at Stop: make test",
        "define the agent tester",
        "set network.allow to",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(code, Some(3), "nobody was there to say yes: {text}");
    let (text, _) = run(&home, "approve", &["--list"]).await;
    assert!(text.contains("nothing is approved"), "{text}");
    let (_, code) = run(&home, "approve", &["--yes"]).await;
    assert_eq!(code, Some(0));
    let (text, _) = run(&home, "approve", &["--list"]).await;
    assert!(text.starts_with("approved "), "{text}");
    let (text, _) = run(&home, "doctor", &[]).await;
    assert!(
        text.contains("is approved") && text.contains("Stop: make test"),
        "{text}"
    );
    home.write("fastness.toml", &hook("Stop", "make evil"));
    let (text, _) = run(&home, "approve", &["--list"]).await;
    assert!(text.starts_with("changed since "), "{text}");
    let (text, _) = run(&home, "doctor", &[]).await;
    assert!(
        text.contains("is not approved") && text.contains("fastness approve"),
        "{text}"
    );
    let (_, code) = run(&home, "approve", &["--revoke"]).await;
    assert_eq!(code, Some(0));
    let (text, _) = run(&home, "approve", &["--list"]).await;
    assert!(text.contains("nothing is approved"), "{text}");
}

#[tokio::test]
async fn d_10_doctor_lists_what_there_is_with_sizes_and_what_was_left_out() {
    let home = Home::new(binary(), Script::says("hi"));
    write(&home, "AGENTS.md", "12345");
    symlink("/etc/passwd", home.workspace().join("CLAUDE.md")).unwrap();
    write(&home, ".claude/skills/review/SKILL.md", "Look");
    write(&home, ".claude/commands/fix.md", "Fix it");
    let (text, code) = run(&home, "doctor", &[]).await;
    for part in [
        "AGENTS.md (5 bytes)",
        "review (4 bytes)",
        "fix (6 bytes)",
        "left out",
        "CLAUDE.md",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn d_10_doctor_says_which_skill_is_cut_and_that_there_are_too_many() {
    let home = Home::new(binary(), Script::says("hi"));
    let long = "x".repeat(LIBRARY_FILE_BYTES_MAX + 1);
    write(&home, ".claude/skills/a-long-one/SKILL.md", &long);
    let whole = "x".repeat(LIBRARY_FILE_BYTES_MAX);
    write(&home, ".claude/skills/a-whole-one/SKILL.md", &whole);
    for number in 0..LIBRARY_ENTRIES_MAX {
        let name = format!(".claude/skills/b{number}/SKILL.md");
        write(&home, &name, "Look");
    }
    let (text, code) = run(&home, "doctor", &[]).await;
    for part in [
        format!(
            "a-long-one ({} bytes, cut to {LIBRARY_FILE_BYTES_MAX})",
            long.len()
        ),
        format!("a-whole-one ({} bytes)", whole.len()),
        format!("{LIBRARY_ENTRIES_MAX}: "),
        format!("only {LIBRARY_ENTRIES_MAX} skills are used"),
    ] {
        assert!(text.contains(&part), "{part}: {text}");
    }
    assert_eq!(code, Some(0), "{text}");
}

#[tokio::test]
async fn d_10_commands_that_change_are_offered_again_with_the_next_prompt() {
    let home = Home::new(binary(), Script::says("hi"));
    write(&home, ".claude/commands/fix.md", "Fix");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    let names = |updates: &[testkit::Update]| -> Vec<String> {
        let offers = updates
            .iter()
            .filter(|update| update.kind == "available_commands_update");
        let commands = offers.flat_map(|offer| {
            let commands = offer.update["availableCommands"].as_array().unwrap();
            commands.iter().map(|command| command["name"].to_string())
        });
        commands.collect()
    };
    let first = client.prompt(&session, "go").await;
    assert_eq!(names(&first.updates), ["\"compact\"", "\"fix\""]);
    assert!(names(&client.prompt(&session, "go").await.updates).is_empty());
    write(server.home(), ".claude/commands/more.md", "More");
    let mut later = client.prompt(&session, "go").await.updates;
    later.extend(client.prompt(&session, "go").await.updates);
    assert_eq!(names(&later), ["\"compact\"", "\"fix\"", "\"more\""]);
}

#[tokio::test]
async fn ask_says_on_stderr_what_a_project_wants_and_does_not_get() {
    let home = Home::new(binary(), Script::says("hi"));
    home.write("fastness.toml", &hook("Stop", "make test"));
    let output = home.command("ask").arg("go").output().await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hi\n");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains("note: ") && told.contains("fastness approve"),
        "{told}"
    );
}

#[tokio::test]
async fn a_project_s_model_answers_once_approved_unless_one_was_named_for_the_server() {
    let chat = RecordingModel::start().await;
    let claude = RecordingModel::speaking(Speech::Anthropic, Vec::new()).await;
    let home = claude.beside(chat.home(binary())).without_model();
    configure(&home, "[models]\ndefault = \"openai-chat:recording\"\n");
    let wanted = Speech::Anthropic.model();
    home.write(
        "fastness.toml",
        &format!("[models]\ndefault = \"{wanted}\"\n"),
    );
    let server = Program::serve_in(home).await;
    let asked = || (chat.requests().len(), claude.requests().len());
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (1, 0), "nobody has approved it");
    let (text, _) = run(server.home(), "approve", &["--yes"]).await;
    assert!(text.contains("set models.default to"), "{text}");
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (1, 1));
    let events = server.home().events(&session);
    let chosen = events
        .iter()
        .rev()
        .find(|event| event["config"].is_object());
    assert_eq!(
        chosen.unwrap()["config"]["model"],
        wanted,
        "it is the session's now"
    );
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (1, 2));
    drop(client);
    let mut server = server;
    server.terminate().await;
    let home = server.into_home();
    let home = home.env("FASTNESS_MODEL", "openai-chat:recording");
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (2, 2), "a model was named");
}

#[tokio::test]
async fn a_project_s_address_for_models_counts_once_approved_and_only_as_long() {
    let (own, theirs) = (RecordingModel::start().await, RecordingModel::start().await);
    // By the operator's file: the environment would count more than a project.
    let home = Home::new(binary(), json!([])).model(Speech::OpenAiChat.model());
    let home = home.env("OPENAI_API_KEY", "operators-key");
    let base =
        |model: &RecordingModel| format!("[models]\nopenai_base_url = \"{}\"\n", model.url());
    configure(&home, &base(&own));
    home.write("fastness.toml", &base(&theirs));
    let server = Program::serve_in(home).await;
    let asked = || (own.requests().len(), theirs.requests().len());
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (1, 0), "nobody has approved it");
    let (text, _) = run(server.home(), "approve", &["--yes"]).await;
    assert!(text.contains("send your key there"), "{text}");
    client.prompt(&session, "go").await;
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (1, 2));
    let revoked = run(server.home(), "approve", &["--revoke"]).await;
    assert_eq!(revoked.1, Some(0), "{}", revoked.0);
    client.prompt(&session, "go").await;
    assert_eq!(asked(), (2, 2), "the approval is gone");
}

#[tokio::test]
async fn what_the_environment_says_of_models_counts_more_than_an_approved_project() {
    let (own, theirs) = (RecordingModel::start().await, RecordingModel::start().await);
    let home = own.home(binary());
    let theirs_at = format!("[models]\nopenai_base_url = \"{}\"\n", theirs.url());
    home.write("fastness.toml", &theirs_at);
    run(&home, "approve", &["--yes"]).await;
    let server = Program::serve_in(home).await;
    let mut client = AcpClient::connect_ws(&server).await;
    let session = client.new_session().await;
    client.prompt(&session, "go").await;
    assert_eq!((own.requests().len(), theirs.requests().len()), (1, 0));
}
