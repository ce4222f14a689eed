//! Which setting wins, and what a wrong one says.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use clap::Parser;
use tracing::level_filters::LevelFilter;

use super::{Environment, Settings};
use crate::args::Cli;
use crate::render::{Exit, exit_of};

const HOME: (&str, &str) = ("HOME", "/home/me");

fn resolve(line: &str, variables: &[(&str, &str)]) -> anyhow::Result<Settings> {
    let cli = Cli::try_parse_from(line.split(' ')).unwrap();
    Settings::resolve(&cli, Environment::of(variables))
}

/// What a wrong setting says; it must be wrong usage.
fn complaint(line: &str, variables: &[(&str, &str)]) -> String {
    let error = resolve(line, variables).unwrap_err();
    assert_eq!(exit_of(&error), Exit::Usage, "{error}");
    error.to_string()
}

#[test]
fn the_data_directory_is_the_flag_then_the_variable_then_the_state_directory() {
    let data_dir =
        |line: &str, variables: &[(&str, &str)]| resolve(line, variables).unwrap().data_dir;
    let all = [
        HOME,
        ("XDG_STATE_HOME", "/state"),
        ("FASTNESS_DATA_DIR", "/data"),
    ];
    assert_eq!(
        data_dir("fastness serve --data-dir /flag", &all),
        Path::new("/flag")
    );
    assert_eq!(data_dir("fastness serve", &all), Path::new("/data"));
    assert_eq!(
        data_dir("fastness serve", &all[..2]),
        Path::new("/state/fastness")
    );
    let home = Path::new("/home/me/.local/state/fastness");
    assert_eq!(data_dir("fastness serve", &[HOME]), home);
    let relative = [HOME, ("XDG_STATE_HOME", "state"), ("FASTNESS_DATA_DIR", "")];
    assert_eq!(data_dir("fastness serve", &relative), home);
    assert!(data_dir("fastness serve --data-dir here", &all).ends_with("here"));
    assert!(data_dir("fastness serve --data-dir here", &all).is_absolute());
    assert!(complaint("fastness serve", &[]).contains("HOME is not set"));
}

#[test]
fn flags_win_over_variables_and_variables_over_defaults() {
    let variables = [
        HOME,
        ("FASTNESS_MODEL", "offline"),
        ("FASTNESS_LOG", "debug"),
        ("FASTNESS_LISTEN", "127.0.0.1:7"),
        ("FASTNESS_LIMITS_GRACE_MS", "250"),
        ("FASTNESS_LIMITS_IDLE_MS", "750"),
        ("FASTNESS_GREETING", "false"),
    ];
    let flags = "fastness serve --model script:x --log error --listen 127.0.0.1:8 --grace 2";
    let settings = resolve(flags, &variables).unwrap();
    assert_eq!(settings.model.spec.as_deref(), Some("script:x"));
    assert_eq!(settings.log, LevelFilter::ERROR);
    assert_eq!(settings.listen.port(), 8);
    assert_eq!(settings.limits.grace, Duration::from_secs(2));
    assert_eq!(settings.limits.idle, Duration::from_millis(750));

    let settings = resolve("fastness serve", &variables).unwrap();
    assert_eq!(settings.model.spec.as_deref(), Some("offline"));
    assert_eq!(settings.log, LevelFilter::DEBUG);
    assert_eq!(settings.listen.port(), 7);
    assert_eq!(settings.limits.grace, Duration::from_millis(250));
    assert!(!settings.is_greeting);

    let settings = resolve("fastness serve", &[HOME]).unwrap();
    assert_eq!(settings.model.spec, None);
    assert_eq!(settings.log, LevelFilter::INFO);
    assert_eq!(settings.listen.to_string(), "127.0.0.1:4600");
    assert_eq!(settings.limits.grace, Duration::from_secs(300));
    assert!(settings.is_greeting);
}

#[test]
fn a_wrong_value_is_named_with_what_would_be_right() {
    let wrong = |name, value| complaint("fastness serve", &[HOME, (name, value)]);
    let limit = wrong("FASTNESS_LIMITS_GRASE_MS", "1");
    assert!(
        limit.contains("FASTNESS_LIMITS_GRASE_MS") && limit.contains("`grace_ms`"),
        "{limit}"
    );
    assert!(wrong("FASTNESS_LIMITS_GRACE_MS", "soon").contains("whole number"));
    assert!(wrong("FASTNESS_MODELS_CONTEXT_WINDOW", "big").contains("number of tokens"));
    assert!(wrong("FASTNESS_GREETING", "no").contains("true or false"));
    assert!(wrong("FASTNESS_LOG", "loud").contains("`loud`"));
    assert!(wrong("FASTNESS_LISTEN", "here").contains("ADDR:PORT"));
    assert!(wrong("FASTNESS_STORE", "nats://x").contains("not built yet"));
    assert!(wrong("FASTNESS_LISTEN", "0.0.0.0:1").contains("other machines"));
    let nowhere = complaint("fastness ask x --cwd does-not-exist", &[HOME]);
    assert!(nowhere.contains("is not a directory"), "{nowhere}");
}

#[test]
fn beyond_this_machine_it_listens_only_with_tls_or_behind_a_proxy() {
    let open = "fastness serve --listen 0.0.0.0:4600";
    let refused = complaint(open, &[HOME]);
    assert!(refused.contains("not be encrypted"), "{refused}");
    for allowed in [
        format!("{open} --behind-proxy"),
        format!("{open} --tls-cert c.pem --tls-key k.pem"),
        "fastness serve --listen [::1]:1".to_owned(),
    ] {
        assert!(resolve(&allowed, &[HOME]).is_ok(), "{allowed}");
    }
    let by_variables = [
        HOME,
        ("FASTNESS_TLS_CERT", "c.pem"),
        ("FASTNESS_TLS_KEY", "k.pem"),
        ("FASTNESS_UNIX", "socket"),
    ];
    let settings = resolve(open, &by_variables).unwrap();
    assert!(settings.tls.unwrap().certificate.is_absolute());
    assert!(settings.unix.unwrap().is_absolute());
    assert!(resolve(open, &[HOME, ("FASTNESS_BEHIND_PROXY", "true")]).is_ok());
    let half = complaint("fastness serve --tls-cert c.pem", &[HOME]);
    assert!(half.contains("--tls-key"), "{half}");
    let half = complaint("fastness serve --tls-key k.pem", &[HOME]);
    assert!(half.contains("--tls-cert"), "{half}");
}

#[test]
fn the_token_is_the_variable_then_the_named_file_then_that_of_the_data_directory() {
    let directory = tempfile::tempdir().unwrap();
    let data_dir = directory.path().to_str().unwrap();
    let of_data_dir = auth::token::load_or_create(&directory.path().join("token")).unwrap();
    let named_file = directory.path().join("named");
    let named = auth::token::load_or_create(&named_file).unwrap();

    let ask = format!("fastness ask x --data-dir {data_dir}");
    let with_file = format!("{ask} --token-file {}", named_file.display());
    let token = |line: &str, variables: &[(&str, &str)]| {
        let token = resolve(line, variables).unwrap().token();
        token.unwrap().map(|token| token.reveal().to_owned())
    };
    assert_eq!(
        token(&with_file, &[("FASTNESS_TOKEN", "T\n")]).as_deref(),
        Some("T")
    );
    assert_eq!(token(&with_file, &[]).as_deref(), Some(named.reveal()));
    assert_eq!(token(&ask, &[]).as_deref(), Some(of_data_dir.reveal()));
    assert_eq!(
        token("fastness ask x --data-dir /does/not/exist", &[]),
        None
    );

    // A file that was named must be there, and nobody else may have read it.
    let missing = format!("{ask} --token-file /does/not/exist");
    assert!(resolve(&missing, &[]).unwrap().token().is_err());
    std::fs::set_permissions(&named_file, PermissionsExt::from_mode(0o644)).unwrap();
    assert!(resolve(&with_file, &[]).unwrap().token().is_err());
}

#[test]
fn what_the_operators_file_says_of_models_is_below_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().to_str().unwrap();
    std::fs::create_dir(directory.path().join("fastness")).unwrap();
    let path = directory.path().join("fastness/config.toml");
    let variables = [HOME, ("XDG_CONFIG_HOME", config)];
    let text =
        "[models]\ndefault = \"ollama:qwen3\"\ncontext_window = 9000\nca_file = \"/ca.pem\"\n";
    std::fs::write(path, text).unwrap();
    let settings = resolve("fastness serve", &variables).unwrap();
    assert_eq!(settings.model.spec.as_deref(), Some("ollama:qwen3"));
    assert_eq!(settings.model.context_window, Some(9_000));
    assert_eq!(
        settings.model.roots.sources().ca_file.as_deref(),
        Some(Path::new("/ca.pem"))
    );
    let overruled = [
        HOME,
        ("XDG_CONFIG_HOME", config),
        ("FASTNESS_MODEL", "offline"),
        ("FASTNESS_MODELS_CONTEXT_WINDOW", "7"),
        ("FASTNESS_MODELS_CA_FILE", "/other.pem"),
    ];
    let settings = resolve("fastness serve", &overruled).unwrap();
    assert_eq!(settings.model.spec.as_deref(), Some("offline"));
    assert_eq!(settings.model.context_window, Some(7));
    assert_eq!(
        settings.model.roots.sources().ca_file.as_deref(),
        Some(Path::new("/other.pem"))
    );
}

#[test]
fn the_operators_file_is_strict_and_below_the_environment() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().to_str().unwrap();
    std::fs::create_dir(directory.path().join("fastness")).unwrap();
    let write = |text: &str| {
        let path = directory.path().join("fastness/config.toml");
        std::fs::write(path, text).unwrap();
    };
    let variables = [HOME, ("XDG_CONFIG_HOME", config)];
    let hinted = |text: &str| {
        write(text);
        let error = resolve("fastness serve", &variables).unwrap_err();
        assert_eq!(exit_of(&error), Exit::Usage, "{error}");
        format!(
            "{error} / {:?}",
            error.downcast_ref::<crate::render::Failure>()
        )
    };

    write(
        "[limits]\ngrace_ms = 5\n[network]\nallow_private_networks = true\nproxy = \"http://p:1\"\n",
    );
    let settings = resolve("fastness serve", &variables).unwrap();
    assert_eq!(settings.limits.grace, Duration::from_millis(5));
    assert!(settings.network.policy.allow_private_networks);
    assert!(!settings.network.policy.proxies.is_empty());
    let overruled = [
        HOME,
        ("XDG_CONFIG_HOME", config),
        ("FASTNESS_LIMITS_GRACE_MS", "7"),
        ("FASTNESS_NETWORK_ALLOW_PRIVATE_NETWORKS", "false"),
    ];
    let settings = resolve("fastness serve", &overruled).unwrap();
    assert_eq!(settings.limits.grace, Duration::from_millis(7));
    assert!(!settings.network.policy.allow_private_networks);

    let cases = [
        ("[models]\ncontext_window = 0", "number of tokens"),
        ("[models]\ncafile = \"x\"", "`ca_file`"),
        ("[network]\nalow = []", "`allow`"),
        ("[netwrk]\nallow = []", "`network`"),
        ("[limits]\ngrace_m = 5", "grace_ms"),
        ("network = 1", "[network]"),
        ("[network]\nallow = \"x:1\"", "a list"),
        (
            "[network]\nallow = [\"169.254.169.254:80\"]",
            "no exception opens",
        ),
        (
            "[network]\nallow = [\"a.example:80 until soon\"]",
            "not a time",
        ),
        ("[network]\nproxy = \"socks://x\"", "host:port"),
        ("[network]\nno_proxy = \"x\"", "a list"),
        (
            "[search]\nprovider = \"altavista\"",
            "brave, tavily and searxng",
        ),
        ("[search]\nprovider = \"brave\"", "needs a key"),
        ("[search]\nprovider = \"searxng\"", "needs the address"),
        ("[network", "config.toml"),
    ];
    for (text, said) in cases {
        let complaint = hinted(text);
        assert!(complaint.contains(said), "{text}: {complaint}");
    }
}
