//! What can be typed, and what is refused.

use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use super::{Cli, Command, Store};

fn parse(line: &str) -> Result<Command, clap::Error> {
    Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
}

#[test]
fn the_command_line_is_consistent_and_every_command_shows_an_example() {
    fn check(commands: &clap::Command) {
        // What is hidden is not for people.
        for command in commands.get_subcommands().filter(|it| !it.is_hide_set()) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            assert!(help.contains("fastness "), "{}: {help}", command.get_name());
            check(command);
        }
    }
    Cli::command().debug_assert();
    check(&Cli::command());
}

#[test]
fn the_data_directory_of_sessions_may_be_named_before_or_after_what_to_do() {
    for line in [
        "fastness sessions --data-dir d list",
        "fastness sessions list --data-dir d",
    ] {
        let command = parse(line).unwrap();
        let named = command.common().data_dir.clone();
        assert_eq!(named, Some("d".into()), "{line}");
    }
    for wrong in [
        "fastness sessions",
        "fastness sessions search",
        "fastness sessions fork 3f2a",
        "fastness sessions export 3f2a --format pdf",
    ] {
        assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
    }
}

#[test]
fn of_several_listen_addresses_the_last_counts() {
    let line = "fastness serve --listen 127.0.0.1:1 --listen localhost:2 --grace 0.5";
    let Ok(Command::Serve(args)) = parse(line) else {
        panic!("not understood");
    };
    assert_eq!(args.listen, Some(([127, 0, 0, 1], 2).into()));
    assert_eq!(args.grace, Some(Duration::from_millis(500)));
    assert_eq!(args.store.unwrap_or_default(), Store::File);
}

#[test]
fn of_a_flag_that_is_given_twice_the_last_counts() {
    let line = "fastness serve --unix a --unix b --tls-cert a --tls-cert b --tls-key a \
                --tls-key b --behind-proxy --behind-proxy --grace 1 --grace 2 \
                --idle-timeout 1 --idle-timeout 2 --stdio --stdio --store file --store file \
                --allow-host a --allow-host b";
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let Ok(Command::Serve(args)) = parse(&line) else {
        panic!("not understood");
    };
    for path in [args.unix, args.tls_cert, args.tls_key] {
        assert_eq!(path, Some("b".into()));
    }
    let two = Some(Duration::from_secs(2));
    assert_eq!((args.grace, args.idle_timeout), (two, two));
    assert!(args.behind_proxy && args.stdio);
    assert_eq!(args.allow_host, ["a", "b"], "these add up");
}

#[test]
fn a_clustered_store_is_refused_with_a_clear_sentence() {
    let error = parse("fastness serve --store nats://host").unwrap_err();
    assert!(error.to_string().contains("is not built yet"), "{error}");
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn an_unknown_command_is_wrong_usage_and_names_the_nearest() {
    let error = parse("fastness serv").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSubcommand);
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("'serve'"), "{error}");
}

#[test]
fn ask_takes_rules_a_session_and_a_prompt_from_stdin() {
    let id = "0123456789abcdef0123456789abcdef";
    let line = format!("fastness ask - --allow read --allow bash(make*) --session {id} --json");
    let Ok(Command::Ask(args)) = parse(&line) else {
        panic!("not understood");
    };
    assert_eq!(
        (args.prompt.as_str(), args.allow.len(), args.json),
        ("-", 2, true)
    );
    assert_eq!(args.session.as_deref(), Some(id));
    for wrong in ["fastness ask", "fastness ask x --timeout -1"] {
        assert_eq!(parse(wrong).unwrap_err().exit_code(), 2, "{wrong}");
    }
}
