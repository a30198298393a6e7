//! Ends of helpers: with their last owner, however it goes, and in bounded time.

use std::time::{Duration, Instant};

use berth_harness::{said, signal, wait_gone, wait_until};
use rustix::process::Signal;

use crate::helpers::{
    HelperLookalike, dir, ensured, events, is_alive, lab, owner, owners, process, shown, text,
};

#[test]
fn d8_an_owner_that_is_killed_without_a_word_is_noticed_at_once() {
    let lab = lab();
    let place = dir(&lab, "place");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let mut slowest = Duration::ZERO;
    for _ in 0..10 {
        let session = owner(&lab);
        let helper = ensured(&lab, &place, "broker", &session, &[], &["hang"]);
        let (keeper, running) = (lab.process(&session, "keeper_pid"), process(&helper, "pid"));
        let killed_at = Instant::now();
        signal(&keeper, Signal::KILL);
        // There is no further command: the kernel tells the helper's keeper.
        wait_gone(&running);
        slowest = slowest.max(killed_at.elapsed());
    }
    println!("slowest end after an owner was killed: {slowest:?}");
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");
}

#[test]
fn d8_one_of_two_owners_that_is_killed_is_out_and_the_helper_stays() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
    ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    lab.kill_keeper(&one);
    let id = text(&helper, "id");
    wait_until("the dead to be out", || owners(&shown(&lab, &id)) == [two.as_str()]);
    assert!(is_alive(&process(&helper, "pid")));
}

/// An owner that says nothing for long may be at work.
#[test]
fn d9_a_helper_lingers_without_owners_and_never_ends_while_it_has_one() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (silent, leaver) = (owner(&lab), owner(&lab));
    // This helper lingers for longer than anything takes here.
    let long = ["--idle", "1h"];
    let patient = ensured(&lab, &place, "patient", &leaver, &long, &["hang"]);
    let patient_id = text(&patient, "id");
    for _ in 0..5 {
        lab.ok(["helper", "release", &patient_id, "--owner", &leaver]);
        assert_eq!(shown(&lab, &patient_id)["helper"]["lingers"], true);
        // In time: the helper is the same one, and is no longer stopped.
        assert_eq!(ensured(&lab, &place, "patient", &leaver, &long, &["hang"])["pid"], patient["pid"]);
        assert_eq!(shown(&lab, &patient_id)["helper"]["lingers"], false);
    }
    lab.ok(["helper", "stop", &patient_id]);
    // Two helpers whose time is short.
    let idle = ["--idle", "300ms"];
    let used = ensured(&lab, &place, "used", &silent, &idle, &["hang"]);
    let idle_one = ensured(&lab, &place, "idle", &leaver, &idle, &["hang"]);
    let running = process(&idle_one, "pid");
    let (used_id, id) = (text(&used, "id"), text(&idle_one, "id"));
    lab.ok(["helper", "release", &id, "--owner", &leaver]);
    wait_gone(&running);
    wait_until("its record to say so", || shown(&lab, &id)["state"] == "stopped");
    assert_eq!(events(&lab, &id, "stop_requested").len(), 1);
    let left = events(&lab, &id, "owner_left").last().cloned().expect("an event");
    let stopped = events(&lab, &id, "stop_requested")[0].clone();
    let lingered = stopped["at_ms"].as_u64().zip(left["at_ms"].as_u64()).map(|(end, begin)| end - begin);
    assert!(lingered.is_some_and(|ms| ms >= 299), "it lingered for {lingered:?} ms");
    // The other helper had the same idle time, and an owner that said nothing.
    assert!(is_alive(&process(&used, "pid")));
    assert_eq!(events(&lab, &used_id, "stop_requested"), Vec::<serde_json::Value>::new());
    let listed = lab.json(["helper", "ls", "--json"]);
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "a helper that is over is not listed: {listed}");
}

#[test]
fn d10_a_helper_that_does_not_want_to_end_holds_up_neither_the_hook_nor_the_next_one() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let deaf = ["ignore:TERM,HUP,INT", "child", "[", "ignore:TERM,HUP,INT", "hang", "]", "say:deaf", "hang"];
    let helper = ensured(&lab, &place, "broker", &session, &["--ready", "line:deaf"], &deaf);
    let _bystander = HelperLookalike::new(&lab, &place, &["ignore:TERM,HUP,INT", "say:deaf", "hang"]);
    let (running, id) = (process(&helper, "pid"), text(&helper, "id"));
    // The command is run as an end hook would run it.
    let began_at = Instant::now();
    let mut hook = std::process::Command::new("timeout");
    let berth = lab.command(["helper", "release", "broker", "--owner", &session]);
    hook.arg("5").arg(berth.get_program()).args(berth.get_args()).env("BERTH_HOME", lab.home());
    let said = said(hook.current_dir(&place).output().expect("timeout is installed"));
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(said.out, "", "no stray words");
    println!("the hook took {:?}", began_at.elapsed());
    assert!(is_alive(&running), "it is deaf, and has its grace");
    // The next owner waits for the end of this helper and gets the next one.
    let next = ensured(&lab, &place, "broker", &session, &[], &deaf);
    assert_eq!(next["epoch"], 2);
    assert!(!is_alive(&running) && is_alive(&process(&next, "pid")));
    assert_eq!(events(&lab, &id, "kill_ordered").len(), 1, "it was killed when its grace was over");
    println!("after {:?} there was a new one", began_at.elapsed());
}

/// The keeper is suspended: the hook gets an error in time. The hook has ended when the keeper goes on and cannot be
/// attributed, so its order is not carried out; the owner repeats it.
#[test]
fn d10_a_keeper_that_stands_still_does_not_hold_up_the_hook() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let helper = ensured(&lab, &place, "broker", &session, &[], &["hang"]);
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let (running, keeper) = (process(&helper, "pid"), process(&helper, "keeper_pid"));
    let release = ["helper", "release", &text(&helper, "id"), "--owner", &session];
    signal(&keeper, Signal::STOP);
    let began_at = Instant::now();
    let said = lab.berth(release);
    let took = began_at.elapsed();
    signal(&keeper, Signal::CONT);
    assert_eq!((said.code, said.out.as_str()), (5, ""), "{said:?}");
    assert!(said.err.contains("did not answer in time") && said.err.contains("try again"), "{said:?}");
    assert!(took < Duration::from_secs(15), "{took:?}");
    lab.ok(release);
    wait_gone(&running);
}

#[test]
fn stopping_a_helper_by_order_ends_it_despite_its_owners_and_they_may_ensure_it_again() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
    ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let id = text(&helper, "id");
    let stopped = lab.json(["helper", "stop", "--json", &id]);
    assert!(!is_alive(&process_or_gone(&helper)), "proven over when the command returns");
    assert_eq!((&stopped[0]["state"], owners(&stopped[0])), (&"stopped".into(), vec![]));
    lab.ok(["helper", "release", &id, "--owner", &one]);
    let next = ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    assert_eq!((owners(&next), &next["epoch"]), (vec![two], &2.into()));
}

/// The identity that a status names, of a process that may be gone by now.
fn process_or_gone(status: &serde_json::Value) -> berth_host::identity::ProcessIdentity {
    let pid = u32::try_from(status["pid"].as_u64().expect("a pid")).expect("a pid");
    let me = berth_host::identity::ProcessIdentity::me().expect("this test");
    berth_host::identity::ProcessIdentity::of(pid).unwrap_or(berth_host::identity::ProcessIdentity {
        pid,
        start_ticks: 0,
        ..me
    })
}

#[test]
fn a_helper_that_crashes_is_over_and_the_next_one_is_asked_for() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (one, two) = (owner(&lab), owner(&lab));
    let helper = ensured(&lab, &place, "broker", &one, &[], &["hang"]);
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let id = text(&helper, "id");
    signal(&process(&helper, "pid"), Signal::KILL);
    wait_until("its end to be recorded", || shown(&lab, &id)["state"] == "stopped");
    assert_eq!(events(&lab, &id, "run_started").len(), 1, "nothing comes back to life without a request");
    let next = ensured(&lab, &place, "broker", &two, &[], &["hang"]);
    assert_eq!((owners(&next), &next["epoch"]), (vec![two], &2.into()));
}

#[test]
fn leftovers_of_a_helper_whose_keeper_was_killed_are_ended_before_the_next_one() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let script = ["ignore:TERM,HUP", "say:deaf", "hang"];
    let ready = ["--ready", "line:deaf"];
    let _bystander = HelperLookalike::new(&lab, &place, &script);
    for (round, next) in ["ensure", "release", "ls", "show", "stop"].into_iter().enumerate() {
        let helper = ensured(&lab, &place, "broker", &session, &ready, &script);
        let (running, keeper) = (process(&helper, "pid"), process(&helper, "keeper_pid"));
        let id = text(&helper, "id");
        signal(&keeper, Signal::KILL);
        wait_gone(&keeper);
        assert!(is_alive(&running), "it is deaf");
        match next {
            "ensure" => drop(ensured(&lab, &place, "broker", &session, &ready, &script)),
            "release" => drop(lab.ok(["helper", "release", &id, "--owner", &session])),
            "ls" => drop(lab.ok(["helper", "ls"])),
            "show" => assert_eq!(shown(&lab, &id)["state"], "lost"),
            _ => drop(lab.ok(["helper", "stop", &id])),
        }
        assert!(!is_alive(&running), "round {round}: it outlived `{next}`");
        lab.ok(["helper", "stop", "--grace", "0s", &id]);
    }
}
