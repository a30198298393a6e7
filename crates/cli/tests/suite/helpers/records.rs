//! Records of older versions, damaged ones, and a record of another helper.

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use berth_api::message::{KeeperAnswer, KeeperRequest, WindowSize, WriterTakeover};
use berth_api::record::SessionSpec;
use berth_api::{KeeperConnection, Problem};
use berth_core::{Event, HelperScope, HelperTerms, SafeName, SessionId};
use berth_harness::{TestEnvironment, signal, wait_gone, wait_until};
use berth_host::lock::{LockState, lock_state};
use berth_journal::{Journal, JournalLimits, RealDisk};
use berth_store::StateDir;
use berth_store::session_view::StoredEvent;
use berth_verbs::helper::helper_id;
use rustix::process::Signal;

use crate::helpers::{
    HelperLookalike, dir, ensure, ensured, events, is_alive, lab, owner, process, shown, text,
};

/// The id of a helper in the lab.
fn id_of(lab: &TestEnvironment, name: &str, scope: &HelperScope) -> String {
    let home = StateDir::open(lab.home()).expect("the lab's own directory");
    helper_id(&home, &SafeName::parse(name).expect("a name"), scope).expect("it can be seen").to_string()
}

/// A helper as a version without owners would have made it: a session in the directory of helpers.
fn legacy(lab: &TestEnvironment, place: &std::path::Path, name: &str) -> String {
    let spec = SessionSpec {
        driver: "pty".into(),
        command: vec![lab.agent(), "hang".into()],
        cwd: place.to_str().expect("text").into(),
        ..SessionSpec::default()
    };
    let create = KeeperRequest::Create {
        spec,
        name: Some(name.into()),
        size: WindowSize::default(),
        take: WriterTakeover::None,
        tags: vec![],
        note: None,
    };
    let (id, answer) = first_request(lab, place, name, create);
    answer.expect("it starts");
    id
}

/// Starts a keeper of a helper with this request.
fn first_request(
    lab: &TestEnvironment,
    place: &std::path::Path,
    name: &str,
    request: KeeperRequest,
) -> (String, Result<KeeperAnswer, Problem>) {
    let scope = HelperScope::Dir(place.to_str().expect("text").to_owned());
    let id = id_of(lab, name, &scope);
    let dir = lab.home().join("helpers").join(&id);
    for dir in [lab.home().join("helpers"), dir.clone(), dir.join("journal")] {
        let _ = fs::create_dir(&dir);
        fs::set_permissions(&dir, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("chmod");
    }
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let mut command = lab.command(["keeper", dir.to_str().expect("text")]);
    let child = command.stdin(OwnedFd::from(theirs)).spawn().expect("a keeper");
    drop(command);
    // Reaped when it ends, so that it counts as gone.
    std::thread::spawn(move || child.wait_with_output());
    (id, KeeperConnection::over(ours, "a test".into()).ask(request))
}

/// A resumed helper would run without an owner, and nothing would ever end it.
#[test]
fn a_helper_cannot_be_resumed_like_a_session() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let id = text(&ensured(&lab, &place, "web", &session, &[], &["hang"]), "id");
    lab.ok(["helper", "stop", "--grace", "0s", &id]);
    let lease = lab.home().join("helpers").join(&id).join("lease");
    wait_until("its keeper's end", || matches!(lock_state(&lease), Ok(Some(LockState::Free))));
    let (resumed, answer) = first_request(
        &lab,
        &place,
        "web",
        KeeperRequest::Resume {
            size: WindowSize::default(),
            fresh: false,
            take: WriterTakeover::None,
            restore: false,
            interface: None,
        },
    );
    assert_eq!(resumed, id);
    let problem = answer.expect_err("refused");
    assert!(problem.hint.is_some_and(|hint| hint.contains("berth helper ensure")), "{}", problem.what);
    assert_eq!(shown(&lab, &id)["state"], "stopped");
}

#[test]
fn d11_a_helper_with_unknown_owners_is_never_ended_on_a_guess_and_always_by_order() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let id = legacy(&lab, &place, "old");
    let _bystander = HelperLookalike::new(&lab, &place, &["hang"]);
    let running = process(&shown(&lab, &id), "pid");
    let table = lab.ok(["helper", "ls"]);
    assert!(table.contains("none known"), "{table}");
    let listed = lab.json(["helper", "ls", "--json"]);
    assert_eq!(listed[0]["helper"]["owners_known"], false);
    assert!(lab.ok(["helper", "show", "old"]).contains("none known"));
    // Sessions come and go beside it.
    for said in [
        ensure(&lab, &place, "old", &session, &[], &["hang"]),
        lab.berth(["helper", "release", "old", "--owner", &session]),
    ] {
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(
            said.err.contains("the owners of helper") && said.err.contains("helper stop old"),
            "{said:?}"
        );
    }
    lab.ok(["stop", &session]);
    assert!(is_alive(&running));
    lab.ok(["helper", "stop", "old"]);
    wait_gone(&running);
    // From its next run on its owners are known.
    lab.ok(["resume", "-d", &session]);
    let next = ensured(&lab, &place, "old", &session, &[], &["hang"]);
    assert_eq!((text(&next, "id"), &next["epoch"]), (id, &2.into()));
    assert_eq!(next["helper"]["owners_known"], true);
}

#[test]
fn a_damaged_record_is_refused_and_nothing_is_killed_for_it() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let helper = ensured(&lab, &place, "web", &session, &[], &["ignore:TERM,HUP", "hang"]);
    let (running, keeper) = (process(&helper, "pid"), process(&helper, "keeper_pid"));
    let id = text(&helper, "id");
    signal(&keeper, Signal::KILL);
    wait_gone(&keeper);
    let segment = lab.home().join("helpers").join(&id).join("journal/00000000000000000001.log");
    let whole = fs::read(&segment).expect("the segment");
    let mut damaged = whole.clone();
    damaged[60] ^= 1;
    fs::write(&segment, &damaged).expect("the segment");
    let healthy = ensured(&lab, &place, "healthy", &session, &[], &["hang"]);
    let says_so = |said: berth_harness::CommandOutput, what: &str| {
        assert_eq!(said.code, 1, "{what}: {said:?}");
        assert!(said.err.contains(&segment.display().to_string()), "{what}: {said:?}");
        assert!(said.err.contains("hint:"), "{what}: {said:?}");
    };
    says_so(ensure(&lab, &place, "web", &session, &[], &["ignore:TERM,HUP", "hang"]), "ensure");
    says_so(lab.berth(["helper", "release", &id, "--owner", &session]), "release");
    says_so(lab.berth(["helper", "show", &id]), "show");
    says_so(lab.berth(["helper", "stop", &id]), "stop");
    says_so(lab.berth(["helper", "ls"]), "ls");
    let by_name = lab.command(["helper", "stop", "web"]).current_dir(&place).output().expect("berth");
    says_so(berth_harness::said(by_name), "stop by name");
    assert!(is_alive(&running), "nothing proves what it is");
    assert!(is_alive(&process(&healthy, "pid")));
    assert_eq!(fs::read(&segment).expect("the segment"), damaged, "the file is untouched");
    // After a repair the helper goes on where it was.
    fs::write(&segment, whole).expect("the segment");
    lab.ok(["helper", "stop", &id]);
    wait_gone(&running);
}

/// Two names with one id: the record decides which helper the id belongs to.
#[test]
fn a_record_of_another_helper_is_not_used() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    let name = |name: &str| SafeName::parse(name).expect("a name");
    let here = HelperScope::Dir(place.to_str().expect("text").to_owned());
    for (at, (other, scope)) in
        [(name("other"), here.clone()), (name("web-1"), HelperScope::User)].into_iter().enumerate()
    {
        let asked = format!("web-{at}");
        let id = SessionId::parse(&id_of(&lab, &asked, &here)).expect("an id");
        let dir = lab.home().join("helpers").join(id.as_str());
        let _ = fs::create_dir(lab.home().join("helpers"));
        fs::set_permissions(lab.home().join("helpers"), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .expect("chmod");
        fs::create_dir_all(dir.join("journal")).expect("a directory");
        let disk = RealDisk::new(dir.join("journal"));
        let mut journal = Journal::create(disk, id.as_str(), JournalLimits::default()).expect("a journal");
        let terms = HelperTerms { name: other, scope, linger_ms: 0, ready: None, ready_within_ms: 0 };
        let created = Event::Created { spec: berth_core::SessionSpec::default(), name: Some(name(&asked)) };
        let events = [created, Event::HelperDeclared { terms }].map(|event| StoredEvent { at_ms: 1, event });
        journal.append(events.to_vec()).expect("a disk");
        journal.close().expect("a disk");
        let said = ensure(&lab, &place, &asked, &session, &[], &["hang"]);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
        assert!(said.err.contains("is of another helper") && said.err.contains("hint:"), "{said:?}");
        assert_eq!(events_of(&lab, id.as_str()), 2, "nothing was added to it");
    }
}

/// How many events there are in a helper's journal.
fn events_of(lab: &TestEnvironment, id: &str) -> usize {
    ["created", "helper_declared", "run_starting", "owner_joined"]
        .map(|kind| events(lab, id, kind).len())
        .iter()
        .sum()
}

/// The lease of a helper is removed while the helper runs: no owner joins a keeper that cannot record it,
/// and nothing is lost.
#[test]
fn a_helper_whose_lease_was_removed_gets_no_new_owner_and_is_ensured_again_after_its_end() {
    let lab = lab();
    let place = dir(&lab, "place");
    let (first, second) = (owner(&lab), owner(&lab));
    let id = text(&ensured(&lab, &place, "web", &first, &[], &["hang"]), "id");
    let running = process(&shown(&lab, &id), "pid");
    fs::remove_file(lab.home().join("helpers").join(&id).join("lease")).expect("the lease");
    let said = ensure(&lab, &place, "web", &second, &[], &["hang"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("was removed or replaced while its keeper ran"), "{said:?}");
    wait_gone(&running);
    wait_until("its end", || shown(&lab, &id)["state"] == "stopped");
    ensured(&lab, &place, "web", &second, &[], &["hang"]);
    assert_eq!(events(&lab, &id, "run_ended").len(), 1);
    lab.ok(["helper", "stop", "--grace", "0s", &id]);
}

/// A directory that was copied is not the helper that its record names.
#[test]
fn a_record_that_was_copied_is_not_used() {
    let lab = lab();
    let (here, there) = (dir(&lab, "here"), dir(&lab, "there"));
    let session = owner(&lab);
    let id = text(&ensured(&lab, &here, "web", &session, &[], &["hang"]), "id");
    lab.ok(["helper", "stop", &id]);
    // The keeper's last act follows its last answer; a copy made meanwhile would be torn.
    let lease = lab.home().join("helpers").join(&id).join("lease");
    wait_until("its keeper's end", || matches!(lock_state(&lease), Ok(Some(LockState::Free))));
    let scope = HelperScope::Dir(there.to_str().expect("text").to_owned());
    let copy = id_of(&lab, "web", &scope);
    let shelf = lab.home().join("helpers");
    let mut command = std::process::Command::new("cp");
    command.arg("-a").args([shelf.join(&id), shelf.join(&copy)]);
    assert!(command.status().is_ok_and(|status| status.success()));
    let said = ensure(&lab, &there, "web", &session, &[], &["hang"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{said:?}");
    assert!(said.err.contains("belongs to another journal") && said.err.contains("hint:"), "{said:?}");
}

/// A maker that died before it recorded anything leaves nothing in the way.
#[test]
fn an_empty_record_is_made_anew() {
    let lab = lab();
    let place = dir(&lab, "place");
    let session = owner(&lab);
    for (round, point) in ["claimed", "starting", "spawned", "started"].into_iter().enumerate() {
        let name = format!("web-{round}");
        let mut command = crate::helpers::ensuring(&lab, &place, &name, &session, &[], &["hang"]);
        let said = berth_harness::said(command.env("BERTH_KILLPOINT", point).output().expect("berth"));
        assert_eq!(said.code, 5, "{point}: {said:?}");
        let next = ensured(&lab, &place, &name, &session, &[], &["hang"]);
        assert!(is_alive(&process(&next, "pid")), "{point}");
        let started = next["epoch"].as_u64();
        assert_eq!(started, Some(if point == "claimed" { 1 } else { 2 }), "{point}: {next}");
        lab.ok(["helper", "stop", "--grace", "0s", text(&next, "id").as_str()]);
    }
}
