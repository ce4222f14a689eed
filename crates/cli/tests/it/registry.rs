//! The entry for the ACP registry, against the registry's published rules as we understand them, and the
//! authentication method that the program announces.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{AcpClient, Home, Program, Script};

use crate::support::{binary, echo};

/// Platforms that a `binary` distribution may name.
const PLATFORMS: [&str; 6] = [
    "darwin-aarch64",
    "darwin-x86_64",
    "linux-aarch64",
    "linux-x86_64",
    "windows-aarch64",
    "windows-x86_64",
];

fn entry() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/acp-registry")
}

fn agent() -> Value {
    let text = std::fs::read_to_string(entry().join("agent.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// What an entry breaks, in words.
fn faults(agent: &Value, directory: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |is_fine: bool, fault: &str| {
        if !is_fine {
            faults.push(fault.to_owned());
        }
    };
    let text = |key: &str| agent[key].as_str().unwrap_or_default();
    for key in ["id", "name", "version", "description"] {
        check(!text(key).is_empty(), &format!("{key} is missing"));
    }
    let id = text("id");
    let is_id = id.starts_with(|c: char| c.is_ascii_lowercase())
        && id
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    check(
        is_id,
        "the id is not of lower-case letters, digits and hyphens",
    );
    check(id == directory, "the id is not the directory's name");
    let version = text("version");
    let parts: Vec<&str> = version.split('.').collect();
    let is_number = |part: &&str| part.parse::<u64>().is_ok();
    check(
        parts.len() == 3 && parts.iter().all(is_number),
        "the version is not x.y.z",
    );
    let ways = agent["distribution"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    check(!ways.is_empty(), "there is no distribution");
    for (kind, way) in &ways {
        match kind.as_str() {
            "npx" | "uvx" => {
                let package = way["package"].as_str().unwrap_or_default();
                let pinned = package.rsplit(['@', '=']).next().unwrap_or_default();
                check(pinned == version, "a package is not pinned to the version");
            }
            "binary" => {
                for (platform, target) in way.as_object().into_iter().flatten() {
                    check(
                        PLATFORMS.contains(&platform.as_str()),
                        "an unknown platform",
                    );
                    let archive = target["archive"].as_str().unwrap_or_default();
                    let is_archive =
                        archive.starts_with("https://") && !archive.contains("/latest/");
                    check(
                        is_archive && target["cmd"].is_string(),
                        "a target is incomplete",
                    );
                }
            }
            _ => check(false, "an unknown kind of distribution"),
        }
    }
    faults
}

/// Whether an icon is 16×16 and takes its colour from the theme.
fn is_icon(svg: &str) -> bool {
    let sizes = ["width=\"16\"", "height=\"16\"", "viewBox=\"0 0 16 16\""];
    let colours = ["fill=\"", "stroke=\""].into_iter().flat_map(|attribute| {
        let values = svg.split(attribute).skip(1);
        values.map(|rest| rest.split('"').next().unwrap_or_default())
    });
    let mut colours = colours.peekable();
    colours.peek().is_some()
        && sizes.iter().all(|size| svg.contains(size))
        && colours.all(|colour| ["currentColor", "none", "inherit"].contains(&colour))
        && !svg.contains("style=")
        && !svg.contains("<script")
}

#[test]
fn registry_entry_follows_the_published_rules() {
    let agent = agent();
    assert_eq!(faults(&agent, "fastness"), Vec::<String>::new());
    assert_eq!(agent["version"], env!("CARGO_PKG_VERSION"));
    for kind in ["npx", "uvx"] {
        assert_eq!(
            agent["distribution"][kind]["args"],
            json!(["acp"]),
            "{kind}"
        );
    }
    let icon = std::fs::read_to_string(entry().join("icon.svg")).unwrap();
    assert!(is_icon(&icon), "{icon}");
}

#[test]
fn entries_that_the_registry_would_refuse_are_noticed() {
    let broken: [(&str, Value); 8] = [
        ("/id", json!("Fastness")),
        ("/id", json!("other")),
        ("/version", json!("1.0")),
        ("/description", json!("")),
        ("/distribution", json!({})),
        ("/distribution", json!({"deb": {}})),
        ("/distribution/npx/package", json!("fastness@latest")),
        (
            "/distribution",
            json!({"binary": {"linux-x86_64": {"archive": "https://a/latest/b"}}}),
        ),
    ];
    for (pointer, value) in broken {
        let mut agent = agent();
        *agent.pointer_mut(pointer).unwrap() = value.clone();
        assert!(!faults(&agent, "fastness").is_empty(), "{pointer} {value}");
    }
    let icon = std::fs::read_to_string(entry().join("icon.svg")).unwrap();
    for (from, to) in [("currentColor", "red"), ("width=\"16\"", "width=\"32\"")] {
        assert!(!is_icon(&icon.replace(from, to)));
    }
}

/// The rule: at least one method is of type `agent`, which is also the default, or `terminal`.
fn is_accepted(initialized: &Value) -> bool {
    let methods = initialized["authMethods"].as_array();
    methods.into_iter().flatten().any(|method| {
        let kind = method["type"].as_str().unwrap_or("agent");
        let has_names = method["id"].is_string() && method["name"].is_string();
        has_names && ["agent", "terminal"].contains(&kind)
    })
}

#[tokio::test]
async fn initialize_announces_a_login_that_the_registry_accepts() {
    let capabilities = [
        (json!({}), "agent"),
        (json!({"auth": {"terminal": true}}), "terminal"),
        // What the registry's own check sends.
        (
            json!({"terminal": true, "_meta": {"terminal-auth": true}}),
            "terminal",
        ),
    ];
    for (capabilities, kind) in capabilities {
        let home = Home::new(binary(), echo());
        let mut client = AcpClient::spawn(&home, "acp", &[]);
        let initialized = client.initialize_with(capabilities).await;
        assert!(is_accepted(&initialized), "{initialized}");
        let [method] = initialized["authMethods"].as_array().unwrap().as_slice() else {
            panic!("{initialized}");
        };
        assert_eq!(method["type"].as_str().unwrap_or("agent"), kind);
        if kind == "terminal" {
            assert_eq!(method["args"], json!(["--login"]));
        }
    }
}

#[tokio::test]
async fn authenticate_succeeds_with_a_model_and_else_says_what_to_do() {
    let login = json!({"methodId": "fastness-login"});
    let home = Home::new(binary(), echo());
    let mut client = AcpClient::spawn_stdio(&home).await;
    client.call("authenticate", login.clone()).await.unwrap();

    // No model server of this machine is to be found.
    let home = Home::new(binary(), Script::says("unused"))
        .without_model()
        .under(&["unshare", "--user", "--map-root-user", "--net", "--"]);
    let mut client = AcpClient::spawn_stdio(&home).await;
    let refused = client
        .call("authenticate", login.clone())
        .await
        .unwrap_err();
    assert_eq!(refused.code, -32_000);
    assert!(
        refused.message.contains("run `fastness login`"),
        "{refused:?}"
    );
    let keys = home.user_dir().join(".config/fastness/keys");
    std::fs::create_dir_all(&keys).unwrap();
    let key = keys.join("openai");
    std::fs::write(&key, "sk-proj-abc").unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let refused = client.call("authenticate", login).await.unwrap_err();
    assert!(refused.message.contains("restart it"), "{refused:?}");
}

#[tokio::test]
async fn clients_with_a_named_token_are_offered_no_login() {
    let server = Program::serve(binary(), echo()).await;
    let (token, code) = crate::project::run(server.home(), "token", &["create", "guest"]).await;
    assert_eq!(code, Some(0), "{token}");
    let mut guest = AcpClient::dial_ws(&server.acp_url(), Some(token.trim()))
        .await
        .unwrap();
    let initialized = guest.initialize().await;
    assert_eq!(initialized["authMethods"], json!([]));
}
