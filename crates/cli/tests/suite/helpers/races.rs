//! Many clients at once. Seeded, so that a failure can be repeated.

use std::path::Path;
use std::process::{Child, Command};

use berth_harness::{SeededRng, TestEnvironment, said, wait_gone, wait_until};

use crate::helpers::{
    HelperLookalike, dir, ensured, ensuring, events, is_alive, lab, owner, owners, process, shown, text,
};

fn begin(command: &mut Command) -> Child {
    command.spawn().expect("berth can be started")
}

fn succeeds(child: Child) -> String {
    let said = said(child.wait_with_output().expect("our own child"));
    assert_eq!(said.code, 0, "{said:?}");
    said.out
}

fn releasing(lab: &TestEnvironment, id: &str, owner: &str) -> Command {
    let mut command = lab.command(["helper", "release", id, "--owner", owner]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    command
}

/// Every run was asked to stop once, by its last owner, and ended once.
fn assert_one_stop_per_run(lab: &TestEnvironment, id: &str, runs: u64) {
    let epochs = |kind: &str| -> Vec<u64> {
        events(lab, id, kind).iter().map(|event| event["epoch"].as_u64().expect("a number")).collect()
    };
    let all: Vec<u64> = (1..=runs).collect();
    assert_eq!(epochs("stop_requested"), all);
    assert_eq!(epochs("run_ended"), all);
    for stop in events(lab, id, "stop_requested") {
        assert_eq!(stop["by"]["place"], "its last owner leaving", "{stop}");
        assert_eq!(stop["by"]["uid"], serde_json::Value::Null, "no account ordered it: {stop}");
    }
}

#[test]
fn d4_two_owners_that_release_at_once_stop_the_helper_once_a_thousand_times() {
    let lab = lab();
    let mut seed = SeededRng::announce("d4 release");
    let place = dir(&lab, "place");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    // Four pairs of owners beside each other. Each helper has fifty lives: the more lives, the longer it
    // takes to read what happened.
    let seeds = [seed.fork(), seed.fork(), seed.fork(), seed.fork()];
    std::thread::scope(|scope| {
        for (pair, mut seed) in seeds.into_iter().enumerate() {
            let (lab, place) = (&lab, &place);
            scope.spawn(move || {
                let (one, two) = (owner(lab), owner(lab));
                for name in (0..5).map(|at| format!("broker-{pair}-{at}")) {
                    let id = fifty_lives(lab, &mut seed, place, &name, &one, &two);
                    wait_until("the last end to be recorded", || shown(lab, &id)["state"] == "stopped");
                    assert_one_stop_per_run(lab, &id, 50);
                }
            });
        }
    });
}

fn fifty_lives(
    lab: &TestEnvironment,
    seed: &mut SeededRng,
    place: &Path,
    name: &str,
    one: &str,
    two: &str,
) -> String {
    let mut id = String::new();
    for round in 1..=50 {
        let helper = ensured(lab, place, name, one, &[], &["hang"]);
        let again = ensured(lab, place, name, two, &[], &["hang"]);
        assert_eq!((helper["pid"].as_u64(), again["epoch"].as_u64()), (again["pid"].as_u64(), Some(round)));
        let running = process(&helper, "pid");
        id = text(&helper, "id");
        let pair = if seed.below(2) == 0 { [one, two] } else { [two, one] };
        let first = begin(&mut releasing(lab, &id, pair[0]));
        seed.dawdle(3000);
        let second = begin(&mut releasing(lab, &id, pair[1]));
        succeeds(first);
        succeeds(second);
        wait_gone(&running);
    }
    id
}

#[test]
fn d4_two_owners_that_end_at_once_stop_the_helper_once() {
    let lab = lab();
    let mut seed = SeededRng::announce("d4 stop");
    let place = dir(&lab, "place");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let (one, two) = (owner(&lab), owner(&lab));
    let mut id = String::new();
    for round in 1..=30 {
        let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
        ensured(&lab, &place, "broker", &two, &[], &["hang"]);
        id = text(&helper, "id");
        let running = process(&helper, "pid");
        match seed.below(3) {
            // Both owners stop in order, in one command or in two.
            0 => drop(lab.ok(["stop", "--grace", "0s", &one, &two])),
            1 => {
                let first = begin(&mut lab.command(["stop", "--grace", "0s", &one]));
                seed.dawdle(3000);
                let second = begin(&mut lab.command(["stop", "--grace", "0s", &two]));
                succeeds(first);
                succeeds(second);
            }
            // The owners die without a word.
            _ => {
                let keepers = [lab.process(&one, "keeper_pid"), lab.process(&two, "keeper_pid")];
                keepers.iter().for_each(|it| berth_harness::signal(it, rustix::process::Signal::KILL));
            }
        }
        wait_gone(&running);
        wait_until("the end to be recorded", || shown(&lab, &id)["state"] == "stopped");
        assert_eq!(events(&lab, &id, "stop_requested").len(), round, "seed in the output above");
        lab.ok(["resume", "-d", &one]);
        lab.ok(["resume", "-d", &two]);
    }
    assert_one_stop_per_run(&lab, &id, 30);
}

#[test]
fn d12_twenty_that_ask_first_at_once_get_one_helper() {
    let lab = lab();
    let place = dir(&lab, "place");
    let pids = lab.dir().join("pids");
    let pidfile = format!("pidfile:{}", pids.display());
    let script = [pidfile.as_str(), "say:up", "hang"];
    let sessions: Vec<String> = (0..5).map(|_| owner(&lab)).collect();
    for round in 1..=5 {
        let asked: Vec<Child> = (0..20)
            .map(|at| {
                let options = ["--json", "--ready", "line:up"];
                begin(&mut ensuring(&lab, &place, "broker", &sessions[at % 5], &options, &script))
            })
            .collect();
        let answers: Vec<serde_json::Value> =
            asked.into_iter().map(|it| serde_json::from_str(&succeeds(it)).expect("JSON")).collect();
        assert!(answers.iter().all(|it| it["pid"] == answers[0]["pid"]), "one helper: {answers:?}");
        assert!(answers.iter().all(|it| it["epoch"] == round && it["helper"]["ready"] == true));
        let started = std::fs::read_to_string(&pids).expect("written by each that starts");
        assert_eq!(started.lines().count(), round, "the loser's process would be here as well");
        let id = text(&answers[0], "id");
        let mut all = owners(&shown(&lab, &id));
        all.sort();
        let mut expected = sessions.clone();
        expected.sort();
        assert_eq!(all, expected);
        let running = process(&answers[0], "pid");
        sessions.iter().for_each(|it| drop(lab.ok(["helper", "release", &id, "--owner", it])));
        wait_gone(&running);
    }
}

#[test]
fn joining_while_the_last_owner_leaves_gives_a_live_helper_or_a_new_one() {
    let lab = lab();
    let mut seed = SeededRng::announce("join and leave");
    let place = dir(&lab, "place");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let (mut leaver, mut joiner) = (owner(&lab), owner(&lab));
    let mut helper = ensured(&lab, &place, "broker", &leaver, &[], &["hang"]);
    let id = text(&helper, "id");
    let (mut same, mut new) = (0, 0);
    for round in 0..300 {
        let mut leave = releasing(&lab, &id, &leaver);
        let mut join = ensuring(&lab, &place, "broker", &joiner, &["--json"], &["hang"]);
        let (left, joined) = if seed.below(2) == 0 {
            let left = begin(&mut leave);
            seed.dawdle(4000);
            (left, begin(&mut join))
        } else {
            let joined = begin(&mut join);
            seed.dawdle(4000);
            (begin(&mut leave), joined)
        };
        succeeds(left);
        let answer: serde_json::Value = serde_json::from_str(&succeeds(joined)).expect("JSON");
        assert_eq!(answer["state"], "running", "round {round}: {answer}");
        assert!(is_alive(&process(&answer, "pid")), "round {round}: it was handed out dying: {answer}");
        let now = shown(&lab, &id);
        assert_eq!((&now["pid"], &now["state"]), (&answer["pid"], &"running".into()), "round {round}");
        assert_eq!(owners(&now), [joiner.as_str()], "round {round}");
        if now["epoch"] == helper["epoch"] {
            same += 1
        } else {
            new += 1
        }
        helper = now;
        std::mem::swap(&mut leaver, &mut joiner);
    }
    println!("joined in time: {same}, started anew: {new}");
    assert!(same > 0 && new > 0, "the race was always won by the same side: {same}, {new}");
    let runs = shown(&lab, &id)["epoch"].as_u64().expect("a number");
    let stops = events(&lab, &id, "stop_requested");
    assert_eq!(stops.len() as u64, runs - 1, "each run but the current one was stopped once");
}

/// A session joins at the moment of the very last owner's death.
#[test]
fn joining_while_the_last_owner_is_killed_gives_a_live_helper_or_a_new_one() {
    let lab = lab();
    let mut seed = SeededRng::announce("join and death");
    let place = dir(&lab, "place");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let (mut leaver, mut joiner) = (owner(&lab), owner(&lab));
    let id = text(&ensured(&lab, &place, "broker", &leaver, &[], &["hang"]), "id");
    for round in 0..40 {
        let keeper = lab.process(&leaver, "keeper_pid");
        let joined = begin(&mut ensuring(&lab, &place, "broker", &joiner, &["--json"], &["hang"]));
        seed.dawdle(8000);
        berth_harness::signal(&keeper, rustix::process::Signal::KILL);
        let answer: serde_json::Value = serde_json::from_str(&succeeds(joined)).expect("JSON");
        assert!(is_alive(&process(&answer, "pid")), "round {round}: it was handed out dying: {answer}");
        wait_until("the dead to be out", || owners(&shown(&lab, &id)) == [joiner.as_str()]);
        assert_eq!(shown(&lab, &id)["pid"], answer["pid"], "round {round}");
        lab.ok(["resume", "-d", &leaver]);
        std::mem::swap(&mut leaver, &mut joiner);
    }
}

/// A session that died and came back is not taken for the one that died, nor the other way round.
#[test]
fn a_session_that_comes_back_owns_the_helpers_it_asks_for() {
    let lab = lab();
    let mut seed = SeededRng::announce("comes back");
    let place = dir(&lab, "place");
    let session = owner(&lab);
    for round in 0..40 {
        ensured(&lab, &place, "broker", &session, &[], &["hang"]);
        let keeper = lab.process(&session, "keeper_pid");
        berth_harness::signal(&keeper, rustix::process::Signal::KILL);
        wait_gone(&keeper);
        lab.ok(["resume", "-d", &session]);
        seed.dawdle(2000);
        let answer = ensured(&lab, &place, "broker", &session, &[], &["hang"]);
        let id = text(&answer, "id");
        let now = shown(&lab, &id);
        assert_eq!(
            (owners(&now), &now["state"]),
            (vec![session.clone()], &"running".into()),
            "round {round}"
        );
        assert_eq!(now["pid"], answer["pid"], "round {round}");
    }
}

/// The last run's keeper may still be on its way out when the next one asks. Its end is not this one's.
#[test]
fn a_session_that_was_resumed_is_not_taken_for_its_dying_predecessor() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let long = ["--idle", "1h"];
    let helper = ensured(&lab, &place, "broker", &session, &long, &["hang"]);
    let id = text(&helper, "id");
    for round in 0..30 {
        let old = lab.process(&session, "keeper_pid");
        lab.ok(["stop", "--grace", "0s", &session]);
        lab.ok(["resume", "-d", &session]);
        ensured(&lab, &place, "broker", &session, &long, &["hang"]);
        wait_gone(&old);
        let now = shown(&lab, &id);
        assert_eq!(owners(&now), [session.as_str()], "round {round}: {now}");
        assert_eq!(
            (&now["pid"], &now["helper"]["lingers"]),
            (&helper["pid"], &false.into()),
            "round {round}"
        );
    }
    lab.ok(["helper", "stop", "--grace", "0s", &id]);
}
