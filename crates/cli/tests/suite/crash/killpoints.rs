//! The keeper dies at a chosen place while it starts, and clients die at any.

use berth_harness::{CommandOutput, SeededRng, TestEnvironment, said, wait_until};
use serde_json::Value;

use crate::crash::{endings, lab};

fn run_dying_at(lab: &TestEnvironment, point: &str, options: &[&str]) -> CommandOutput {
    let agent = lab.agent();
    let mut args = vec!["run", "-d"];
    args.extend(options);
    args.extend(["--", &agent, "ignore:HUP,TERM", "say:ready", "hang"]);
    said(lab.command(args).env("BERTH_KILLPOINT", point).output().expect("berth starts"))
}

/// Every session there is, none of them half made: each can be shown, explained, logged and listed.
fn sessions(lab: &TestEnvironment) -> Vec<Value> {
    let listed = lab.json(["ls", "--all", "--json"]);
    let listed = listed.as_array().expect("an array").clone();
    for session in &listed {
        let id = session["id"].as_str().expect("an id");
        for verb in ["show", "why", "log"] {
            lab.ok([verb, id]);
        }
    }
    listed
}

#[test]
fn f2_a_keeper_that_dies_while_starting_says_so_and_leaves_nothing_that_blocks() {
    for point in ["claimed", "starting", "spawned", "started"] {
        let lab = lab();
        let failed = run_dying_at(&lab, point, &["--name", "n", "--key", "k"]);
        assert_eq!(failed.code, 5, "{point}: {failed:?}");
        assert!(failed.out.is_empty(), "{point}: no id is printed for what does not run: {failed:?}");
        assert!(failed.err.contains("keeper") && failed.err.contains("hint:"), "{point}: {failed:?}");
        let left = sessions(&lab);
        assert!(lab.processes().is_empty(), "{point}: {:?}", lab.processes());
        match point {
            // Nothing was ever said in it.
            "claimed" => assert!(left.is_empty(), "{point}: {left:?}"),
            _ => {
                assert_eq!(left.len(), 1, "{point}");
                assert_eq!((&left[0]["state"], &left[0]["name"]), (&"lost".into(), &"n".into()), "{point}");
                assert_eq!(lab.show("n")["id"], left[0]["id"], "{point}: the name still means it");
            }
        }
        // The name and the key are free, or mean a session that can be used.
        let agent = lab.agent();
        let again =
            ["run", "-d", "--name", "n", "--key", "k", "--", &agent, "ignore:HUP,TERM", "say:ready", "hang"];
        if point == "claimed" {
            assert_eq!(lab.number(&lab.ok(again), "epoch"), 1);
        } else {
            // Before the start is recorded, the key means a session whose command may never have run.
            if point != "started" {
                let refused = lab.berth(again);
                assert_eq!(refused.code, 1, "{point}: {refused:?}");
                let resume = format!("berth resume {}", left[0]["id"].as_str().expect("an id"));
                assert!(refused.err.contains(&resume), "{point}: {refused:?}");
            }
            assert_eq!(lab.json(["resume", "-d", "--json", "n"])["epoch"], 2, "{point}");
            assert_eq!(left[0]["id"], lab.ok(again).as_str(), "{point}: the same key is the same session");
        }
        lab.wait_output("n", "ready");
        lab.ok(["stop", "--grace", "0s", "n"]);
    }
}

#[test]
fn f2_a_keeper_that_dies_while_resuming_leaves_a_session_that_can_be_resumed() {
    for point in ["claimed", "starting", "spawned", "started"] {
        let lab = lab();
        let id = lab.start(&["ignore:HUP,TERM", "say:ready", "hang"]);
        lab.wait_output(&id, "ready");
        lab.kill_keeper(&id);
        let failed = said(
            lab.command(["resume", "-d", &id]).env("BERTH_KILLPOINT", point).output().expect("berth starts"),
        );
        assert_eq!(failed.code, 5, "{point}: {failed:?}");
        assert_eq!(lab.show(&id)["state"], "lost", "{point}");
        assert!(lab.processes().is_empty(), "{point}: {:?}", lab.processes());
        let epoch = if point == "claimed" { 2 } else { 3 };
        assert_eq!(lab.json(["resume", "-d", "--json", &id])["epoch"], epoch, "{point}");
        lab.wait_output(&id, "ready");
        let lost: Vec<_> = (1..epoch).map(|epoch| (epoch, "\"lost\"".to_owned())).collect();
        assert_eq!(endings(&lab, &id), lost, "{point}");
        lab.ok(["stop", "--grace", "0s", &id]);
    }
}

#[test]
fn f1_killing_the_client_in_any_phase_of_run_leaves_a_whole_session_or_none() {
    let mut seed = SeededRng::announce("client");
    for round in 0..20_u32 {
        let lab = lab();
        let agent = lab.agent();
        let name = format!("n{round}");
        let args = ["run", "-d", "--name", &name, "--key", "k", "--", &agent, "say:ready", "hang"];
        let mut client = lab.command(args).stdout(std::process::Stdio::null()).spawn().expect("berth starts");
        seed.dawdle(12_000);
        client.kill().expect("our own child");
        client.wait().expect("our own child");
        // A keeper that was on its way arrives, or gives up.
        wait_until("the start to be over", || {
            let left = lab.processes();
            sessions(&lab).iter().all(|session| session["state"] != "starting")
                && (left.is_empty() || left.len() >= 2 && !sessions(&lab).is_empty())
        });
        let left = sessions(&lab);
        assert!(left.len() <= 1, "{left:?}");
        for session in &left {
            assert_eq!(session["state"], "running", "{session}");
        }
        // Repeating the request finds the session, or creates it now.
        let id = lab.ok(args);
        for session in &left {
            assert_eq!(session["id"], id.as_str());
        }
        lab.wait_output(&name, "ready");
        assert_eq!(sessions(&lab).len(), 1);
        assert_eq!(lab.number(&id, "epoch"), 1);
    }
}
