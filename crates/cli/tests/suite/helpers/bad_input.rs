//! Input that is not valid: refused with a clear reason and the right exit code, and nothing is touched.

use std::os::unix::fs::chown;
use std::process::{Command, Stdio};

use berth_harness::{CommandOutput, TestEnvironment, said};

use crate::helpers::{dir, ensure, ensured, is_alive, lab, owner, owners, process, shown, text};

/// Asserts this exit code and these words, and that nothing was printed that a script could take for an answer.
fn refused(said: &CommandOutput, code: i32, says: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (code, ""), "{said:?}");
    for words in says {
        assert!(said.err.contains(words), "it does not say {words:?}: {said:?}");
    }
}

#[test]
fn ensure_refuses_owners_that_are_unknown_or_not_running() {
    let lab = lab();
    let place = dir(&lab, "place");
    let ended = lab.start(&["exit:0"]);
    assert_eq!(lab.berth(["wait", &ended]).code, 0);
    let lost = owner(&lab);
    lab.kill_keeper(&lost);
    refused(&ensure(&lab, &place, "web", "nobody", &[], &["hang"]), 3, &["no session `nobody`", "hint:"]);
    refused(&ensure(&lab, &place, "web", "0123456789ab", &[], &["hang"]), 3, &["0123456789ab"]);
    for over in [&ended, &lost] {
        let said = ensure(&lab, &place, "web", over, &[], &["hang"]);
        refused(&said, 1, &["is not running; only a running session can own a helper", "berth resume"]);
    }
    let agent = lab.agent();
    refused(&lab.berth(["helper", "ensure", "web", "--", &agent, "hang"]), 2, &["--owner S"]);
    refused(&lab.berth(["helper", "release", "web"]), 2, &["--owner S"]);
    assert_eq!(lab.json(["helper", "ls", "--all", "--json"]), serde_json::json!([]), "nothing was made");
}

#[test]
fn a_running_helper_refuses_invalid_owners_and_goes_on() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (session, ended) = (owner(&lab), lab.start(&["exit:0"]));
    assert_eq!(lab.berth(["wait", &ended]).code, 0);
    let helper = ensured(&lab, &place, "web", &session, &[], &["hang"]);
    let said = ensure(&lab, &place, "web", &ended, &[], &["hang"]);
    refused(&said, 1, &["only a running session can own a helper"]);
    let stranger = owner(&lab);
    let id = text(&helper, "id");
    for named in ["web", id.as_str()] {
        let said = lab.berth(["helper", "release", named, "--owner", &stranger]);
        refused(&said, 1, &["does not own helper `web`", "nothing was changed"]);
    }
    refused(&lab.berth(["helper", "release", "web", "--owner", "nobody"]), 3, &["no session `nobody`"]);
    refused(
        &lab.berth(["helper", "release", "wed", "--owner", &session]),
        3,
        &["no helper `wed`", "ls --all"],
    );
    refused(&lab.berth(["helper", "stop", "wed"]), 3, &["no helper `wed`"]);
    refused(&lab.berth(["helper", "show", "wed"]), 3, &["no helper `wed`"]);
    // A typing mistake must not leave half of them stopped.
    refused(&lab.berth(["helper", "stop", "web", "wed"]), 3, &["no helper `wed`"]);
    let now = shown(&lab, &id);
    assert_eq!((owners(&now), &now["state"]), (vec![session], &"running".into()));
    assert!(is_alive(&process(&helper, "pid")));
}

#[test]
fn ensure_refuses_invalid_arguments_and_makes_no_helper() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let hang = &["hang"][..];
    for (options, says) in [
        (&["--ready", "tcp:0"][..], "tcp:PORT"),
        (&["--ready", "udp:53"], "tcp:PORT"),
        (&["--ready", "line:("], "unclosed group"),
        (&["--idle", "soon"], "a time is a number"),
        (&["--scope", "world"], "dir, user"),
    ] {
        refused(&ensure(&lab, &place, "web", &session, options, hang), 2, &[says]);
    }
    refused(&ensure(&lab, &place, "a/b", &session, &[], hang), 2, &["a name is made of letters"]);
    refused(&ensure(&lab, &place, "web", &session, &["--cwd", "not-there"], hang), 1, &["--cwd DIR"]);
    refused(&lab.berth(["helper", "ensure", "web", "--owner", &session]), 2, &["CMD"]);
    assert_eq!(lab.json(["helper", "ls", "--all", "--json"]), serde_json::json!([]));
}

#[test]
fn a_name_that_could_mean_many_is_asked_for_by_id() {
    let lab = lab();
    let session = owner(&lab);
    let ids: Vec<String> = ["one", "two"]
        .map(|place| text(&ensured(&lab, &dir(&lab, place), "web", &session, &[], &["hang"]), "id"))
        .into();
    for verb in ["show", "stop", "log"] {
        let said = lab.berth(["helper", verb, "web"]);
        refused(&said, 3, &["2 helpers", &ids[0], &ids[1], "by its id"]);
    }
    let said = lab.berth(["helper", "release", "web", "--owner", &session]);
    refused(&said, 3, &["2 helpers", &ids[0], &ids[1]]);
    // In the directory of one of the helpers, the name means that one.
    let stop = lab.command(["helper", "stop", "web"]).current_dir(dir(&lab, "one")).output();
    assert!(stop.is_ok_and(|stop| stop.status.success()));
    assert_eq!(
        (&shown(&lab, &ids[0])["state"], &shown(&lab, &ids[1])["state"]),
        (&"stopped".into(), &"running".into())
    );
    lab.ok(["helper", "release", "web", "--owner", &session]);
}

fn as_nobody(lab: &TestEnvironment, args: &[&str]) -> CommandOutput {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_berth")]);
    said(command.args(args).env("BERTH_HOME", lab.home()).stdin(Stdio::null()).output().expect("setpriv"))
}

/// Sessions of other users are in other state directories, closed to us; one that turns up in ours all
/// the same is not trusted.
#[test]
fn a_session_of_another_account_cannot_own_a_helper() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (mine, theirs) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "web", &mine, &[], &["hang"]);
    if chown(lab.session_dir(&theirs), Some(65534), None).is_err() {
        eprintln!("SKIPPED: this needs root");
        return;
    }
    let said = ensure(&lab, &place, "web", &theirs, &[], &["hang"]);
    refused(&said, 1, &["belongs to another account (uid 65534)", "--owner S"]);
    let said = ensure(&lab, &place, "new", &theirs, &[], &["hang"]);
    refused(&said, 1, &["belongs to another account (uid 65534)"]);
    chown(lab.session_dir(&theirs), Some(0), None).expect("root may do that");
    // Another user does not get at our helpers.
    for args in
        [&["helper", "stop", "web"][..], &["helper", "release", "web", "--owner", &mine], &["helper", "ls"]]
    {
        let said = as_nobody(&lab, args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{args:?}: {said:?}");
    }
    let now = shown(&lab, &text(&helper, "id"));
    assert_eq!((owners(&now), &now["state"]), (vec![mine], &"running".into()));
}

/// Messages about a helper call it a helper, and name commands that know it.
#[test]
fn a_helper_is_not_called_a_session() {
    let lab = lab();
    for verb in ["log", "output"] {
        let help = lab.ok(["helper", verb, "--help"]);
        assert!(help.contains("The helper") && !help.contains("session"), "{help}");
    }
    let place = dir(&lab, "place");
    let id = text(&ensured(&lab, &place, "web", &owner(&lab), &[], &["hang"]), "id");
    let mut keeper =
        berth_api::KeeperConnection::open(&lab.home().join("helpers").join(&id), "a test".into())
            .expect("a keeper");
    let resume = berth_api::message::KeeperRequest::Resume {
        size: berth_api::message::WindowSize::default(),
        fresh: false,
        take: berth_api::message::WriterTakeover::None,
        restore: false,
        interface: None,
    };
    let problem = keeper.ask(resume).expect_err("it runs");
    assert_eq!(problem.what, "helper `web` is running already");
    assert_eq!(problem.hint.as_deref(), Some("join it with `berth helper ensure`"));
}
