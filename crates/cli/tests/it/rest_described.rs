//! REST as it is described: by OpenAPI, which a tester of others holds the server against, and by
//! the guide, whose examples run as they stand.

use std::path::Path;
use std::process::Output;
use std::time::Duration;

use testkit::{Home, Peer, Program, peers};

use crate::rest::Rest;
use crate::support::{binary, echo, serve_with};

/// Far above what they take on a quiet machine.
const DEADLINE: Duration = Duration::from_secs(300);

const GUIDE: &str = include_str!("../../../../docs/guides/http-api.md");

/// The fenced examples of the guide in one language, in order.
fn examples(language: &str) -> String {
    let fence = format!("```{language}\n");
    let blocks = GUIDE.split(&fence).skip(1);
    let blocks = blocks.filter_map(|block| block.split("\n```").next());
    blocks.collect::<Vec<_>>().join("\n")
}

/// Runs a program with the server's address and token in its environment.
async fn run(server: &Program, program: &str, arguments: &[&str], python_path: &Path) -> Output {
    let mut command = server.home().clean(program);
    command
        .args(arguments)
        .current_dir(server.home().workspace())
        .env("FASTNESS_URL", server.url())
        .env("FASTNESS_TOKEN", server.token())
        .env("PYTHONPATH", python_path)
        .kill_on_drop(true);
    let output = tokio::time::timeout(DEADLINE, command.output()).await;
    let output = output
        .unwrap_or_else(|_| panic!("{program} does not end"))
        .unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test]
async fn the_guides_curl_examples_run_as_they_stand() {
    testkit::system::need("curl");
    testkit::system::need("jq");
    let server = serve_with(echo(), &[]).await;
    let script = format!("set -euo pipefail\n{}", examples("sh"));
    let output = run(&server, "bash", &["-c", &script], Path::new("")).await;
    let said = text(&output);
    assert!(said.starts_with("you said Say hello.\n"), "{said}");
    assert!(
        said.contains("session.created\n") && said.contains("\nresult\n"),
        "{said}"
    );
    assert!(said.trim_end().ends_with("from a script\tidle"), "{said}");
}

#[tokio::test]
async fn the_guides_python_example_runs_as_it_stands() {
    use testkit::script::{Script, say, tool};
    let script = Script::new()
        .call([tool(
            "write",
            serde_json::json!({"path": "a", "content": "b"}),
        )])
        .call([say("no then")]);
    let server = Program::serve_in(Home::new(binary(), script)).await;
    let output = run(
        &server,
        "python3",
        &["-c", &examples("python")],
        Path::new(""),
    )
    .await;
    let said = text(&output);
    assert!(said.contains("rejected: "), "{said}");
    assert!(
        said.contains("no then") && said.ends_with("ended: end_turn\n"),
        "{said}"
    );
    assert_eq!(server.home().read("a"), None);
}

#[tokio::test]
async fn schemathesis_finds_nothing_that_is_not_as_described() {
    let installed = tokio::task::spawn_blocking(|| peers::ensure(Peer::Schemathesis));
    let site = installed.await.unwrap().join("site");
    let server = serve_with(echo(), &[]).await;
    let schema = format!("{}/api/v1/openapi.json", server.url());
    let token = format!("Authorization: Bearer {}", server.token());
    let arguments = [
        "-B",
        "-m",
        "schemathesis.cli",
        "run",
        &schema,
        "--header",
        &token,
        "--seed",
        "1",
        "--max-examples",
        "6",
        "--phases",
        "examples,coverage,fuzzing",
        // Streams have no end to wait for; they have stories of their own.
        "--exclude-path-regex",
        "/stream$|/changes$",
        "--checks",
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection,ignored_auth",
        "--request-timeout",
        "30",
        "--no-color",
    ];
    run(&server, "python3", &arguments, &site).await;
}

/// Redocly's recommended rules, warnings too.
const LINT: &str = r#"
import { createConfig, lint } from "@redocly/openapi-core";
const config = await createConfig({ extends: ["recommended"] });
const problems = await lint({ ref: process.argv[1], config });
for (const problem of problems)
    console.log(problem.severity, problem.ruleId, problem.location?.[0]?.pointer, problem.message);
process.exit(problems.length ? 1 : 0);
"#;

#[tokio::test]
async fn openapi_passes_redocly_and_its_typescript_compiles() {
    let installed = tokio::task::spawn_blocking(|| peers::ensure(Peer::OpenApi));
    let peer = installed.await.unwrap();
    let server = serve_with(echo(), &[]).await;
    let described = Rest::of(&server).get("/openapi.json").await.is(200);
    server.home().write("openapi.json", &described.to_string());
    let file = server.home().workspace().join("openapi.json");
    let types = server.home().workspace().join("openapi.ts");
    let (file, types) = (file.to_str().unwrap(), types.to_str().unwrap());
    let modules = peer.join("node_modules");
    let generator = modules.join("openapi-typescript/bin/cli.js");
    let compiler = modules.join("typescript/bin/tsc");
    let (generator, compiler) = (generator.to_str().unwrap(), compiler.to_str().unwrap());
    let check = [
        "--noEmit", "--strict", "--target", "es2022", "--module", "esnext",
    ];
    for arguments in [
        vec!["--input-type=module", "-e", LINT, file],
        vec![generator, file, "--output", types],
        [&[compiler, types][..], &check].concat(),
    ] {
        let mut command = server.home().clean("node");
        command
            .args(arguments)
            .current_dir(&peer)
            .kill_on_drop(true);
        let output = tokio::time::timeout(DEADLINE, command.output()).await;
        let output = output.unwrap().unwrap();
        let said = text(&output) + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
    }
}
