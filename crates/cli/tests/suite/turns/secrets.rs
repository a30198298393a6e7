//! Secrets reach the agent, and nothing else: no file, no log, no list.

use std::path::Path;

use berth_harness::said;

use crate::turns::{lab, text};

const GIVEN: &str = "given-f2b9c1d07a";
const INHERITED: &str = "inherited-83ae51cc";

/// All files below a directory that contain this.
fn files_with(dir: &Path, secret: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() {
            found.extend(files_with(&path, secret));
        } else if kind.is_file()
            && std::fs::read(&path)
                .is_ok_and(|bytes| bytes.windows(secret.len()).any(|it| it == secret.as_bytes()))
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn a_key_given_or_inherited_reaches_the_agent_and_is_in_no_file_and_no_list() {
    let lab = lab();
    let key = format!("MY_API_KEY={GIVEN}");
    let mut run =
        lab.command(["run", "-d", "--name", "s", "--agent", "fake", "--env", &key, "--env", "PLAIN=visible"]);
    let told = said(run.env("OTHER_TOKEN", INHERITED).output().expect("berth starts"));
    assert_eq!(told.code, 0, "{told:?}");
    // The agent has the secrets: it says how long they are, and not their text.
    let ask = "sh:printf '%s %s %s' ${#MY_API_KEY} ${#OTHER_TOKEN} $PLAIN";
    let expected = format!("{} {} visible", GIVEN.len(), INHERITED.len());
    assert_eq!(lab.ok(["send", "--wait", "s", ask]), expected);
    let native = text(&lab.show("s"), "conversation_id");
    let looks: Vec<String> = [
        &["show", "s"][..],
        &["show", "s", "--json"],
        &["why", "s"],
        &["why", "s", "--json"],
        &["log", "s"],
        &["log", "s", "--json"],
        &["ps", "s"],
        &["ps", "s", "--json"],
        &["ls", "--json"],
        &["turns", "s", "--json"],
        &["output", "s"],
    ]
    .into_iter()
    .map(|args| lab.ok(args))
    .collect();
    for secret in [GIVEN, INHERITED] {
        for seen in &looks {
            assert!(!seen.contains(secret), "{seen}");
        }
        assert_eq!(files_with(&lab.home(), secret), Vec::<std::path::PathBuf>::new());
    }
    assert!(
        looks[1].contains("PLAIN") || looks[5].contains("PLAIN"),
        "text that is not a secret is recorded"
    );
    // The secret is not recorded when the keeper is killed or a command is refused, either.
    lab.kill_keeper("s");
    let mut refused =
        lab.command(["run", "-d", "--agent", "fake", "--resume", &native, "--env", &key, "--", "--bad-flag"]);
    let refused = said(refused.env("OTHER_TOKEN", INHERITED).output().expect("berth starts"));
    assert!(refused.code != 0 && !refused.err.contains(GIVEN), "{refused:?}");
    for secret in [GIVEN, INHERITED] {
        assert_eq!(files_with(&lab.home(), secret), Vec::<std::path::PathBuf>::new());
    }
    // The client that resumes the session has to have the secret: the record does not.
    let mut again = lab.command(["send", "--wait", "s", ask]);
    let again = said(again.env("MY_API_KEY", GIVEN).output().expect("berth starts"));
    assert_eq!(again.out.trim(), format!("{} 0 visible", GIVEN.len()), "{again:?}");
    // No command line has it: the keeper's and the agent's are visible to every user.
    for field in ["pid", "keeper_pid"] {
        let line = std::fs::read(format!("/proc/{}/cmdline", lab.number("s", field))).expect("it runs");
        assert!(!String::from_utf8_lossy(&line).contains(GIVEN));
    }
}

#[test]
fn a_variable_whose_value_has_the_shape_of_a_secret_reaches_the_agent_and_is_in_no_file() {
    const VALUES: [(&str, &str); 5] = [
        ("GH_PAT", "ghp_0123456789abcdefghij0123456789abcdef"),
        ("PLACE", "glpat-0123456789abcdefghij"),
        ("DATABASE_URL", "postgres://ada:hunter2-f2b9c1@db/x"),
        ("MYSQL_PWD", "hunter2-83ae51"),
        ("TELL", "https://hooks.slack.com/services/T0001/B0001/abcdefghijkl"),
    ];
    let lab = lab();
    let pairs: Vec<String> = VALUES.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut args = vec!["run", "-d", "--name", "s", "--agent", "fake", "--env", "PLAIN=postgres://db/x"];
    args.extend(pairs.iter().flat_map(|pair| ["--env", pair]));
    let told = lab.berth(&args);
    assert_eq!(told.code, 0, "{told:?}");
    for (name, value) in VALUES {
        assert!(told.err.contains(name) && !told.err.contains(value), "{told:?}");
        assert_eq!(files_with(&lab.home(), value), Vec::<std::path::PathBuf>::new(), "{name}");
    }
    assert!(!told.err.contains("PLAIN"), "an address without a password is recorded: {told:?}");
    let ask = "sh:printf '%s ' ${#GH_PAT} ${#PLACE} ${#DATABASE_URL} ${#MYSQL_PWD} ${#TELL} $PLAIN";
    let sizes: String = VALUES.iter().map(|(_, value)| format!("{} ", value.len())).collect();
    let expected = format!("{sizes}postgres://db/x");
    assert_eq!(lab.ok(["send", "--wait", "s", ask]).trim(), expected);
    // A run that comes later has them from the environment of the caller that resumes it.
    lab.kill_keeper("s");
    let mut again = lab.command(["send", "--wait", "s", ask]);
    let again = said(again.envs(VALUES).output().expect("berth starts"));
    assert_eq!(again.out.trim(), expected, "{again:?}");
    for (name, value) in VALUES {
        assert_eq!(files_with(&lab.home(), value), Vec::<std::path::PathBuf>::new(), "{name}");
    }
}
