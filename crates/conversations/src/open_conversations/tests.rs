use berth_harness::TestDir;

use super::*;

fn agent_of(pid: u32) -> CallingAgent {
    let identity = ProcessIdentity { pid, start_ticks: 7, boot: "boot".to_owned() };
    CallingAgent { identity, terminal: None, session: None, kept_in: None, above: vec![] }
}

fn report(conversation_id: &str, at_ms: u64, told: HookEvent) -> HookReport {
    HookReport {
        kind: "claude".to_owned(),
        conversation_id: conversation_id.to_owned(),
        transcript: Some(format!("/home/u/.claude/projects/-w/{conversation_id}.jsonl").into()),
        cwd: Some("/w".into()),
        model: None,
        at_ms,
        told,
        held_up: None,
    }
}

fn started(how: &str) -> HookEvent {
    HookEvent::Started { how: how.to_owned() }
}

fn prompt() -> HookEvent {
    HookEvent::Prompt { text: "do it, the password is hunter2".to_owned() }
}

/// The holder after some events of one process.
fn after(events: &[(&str, u64, HookEvent)]) -> Option<OpenConversation> {
    let mut holder = None;
    for (id, at, told) in events {
        holder = OpenConversation::after(holder.as_ref(), &agent_of(11), &report(id, *at, told.clone()), *at)
            .or(holder);
    }
    holder
}

fn lab() -> (TestDir, OpenConversations) {
    let root = TestDir::new();
    let holders = OpenConversations::of(&root);
    holders.make().unwrap();
    (root, holders)
}

#[test]
fn g8_clear_and_resume_change_the_conversation_of_the_same_process() {
    let ended = HookEvent::Ended { why: "clear".to_owned() };
    let cleared = [
        ("a", 1, started("startup")),
        ("a", 2, prompt()),
        ("a", 3, ended.clone()),
        ("b", 4, started("clear")),
    ];
    let holder = after(&cleared).unwrap();
    assert_eq!((holder.conversation_id.as_str(), holder.opened_ms, &holder.ended), ("b", 4, &None));
    assert_eq!((holder.wrote_boot_ms, holder.doing), (None, HookActivity::Idle));
    // The end of the old one may come late.
    let late = after(&[("a", 1, started("startup")), ("b", 4, started("clear")), ("a", 5, ended)]).unwrap();
    assert_eq!((late.conversation_id.as_str(), late.ended), ("b", None));
    let resumed =
        after(&[("a", 1, started("startup")), ("b", 2, started("resume")), ("a", 3, started("resume"))]);
    assert_eq!(resumed.map(|holder| (holder.conversation_id, holder.opened_ms)), Some(("a".to_owned(), 3)));
}

/// The record, changed to name a process that lives now.
fn of_me(holder: &OpenConversation) -> OpenConversation {
    let identity = ProcessIdentity { pid: std::process::id(), ..holder.identity.clone() };
    OpenConversation { identity, ..holder.clone() }
}

#[test]
fn a_reader_that_loaded_a_conversation_while_another_worked_lacks_its_answer() {
    let reader = |at: u64| of_me(&after(&[("a", at, started("resume"))]).unwrap());
    let stopped = || HookEvent::Stopped { answer: None };
    let turn = after(&[("a", 1, started("startup")), ("a", 100, prompt()), ("a", 200, stopped())]).unwrap();
    assert_eq!(turn.wrote_unread_by(&reader(110)), Some(200), "it answered after that");
    assert_eq!(turn.wrote_unread_by(&reader(200)), Some(200), "at the same instant");
    assert_eq!(turn.wrote_unread_by(&reader(201)), None);
    // The process left while at work, for any reason.
    let ended = HookEvent::Ended { why: "other".to_owned() };
    let cut = after(&[("a", 100, prompt()), ("a", 200, ended)]).unwrap();
    assert_eq!(cut.wrote_unread_by(&reader(110)), Some(200));
    let mut dead = after(&[("a", 100, prompt())]).unwrap();
    assert!(dead.settle(200) && !dead.settle(300));
    assert_eq!(dead.wrote_unread_by(&reader(110)), Some(200));
    let broken_off = after(&[("a", 100, prompt()), ("a", 200, HookEvent::Interrupted)]).unwrap();
    assert_eq!(broken_off.wrote_unread_by(&reader(110)), Some(200));
    // The process only reads, and says so.
    let idle = after(&[("a", 100, started("resume")), ("a", 200, HookEvent::Interrupted)]).unwrap();
    assert_eq!(idle.wrote_unread_by(&reader(110)), None);
    // To another conversation, and back to this one.
    let moved = [("a", 100, prompt()), ("b", 200, started("clear")), ("b", 210, prompt())];
    assert_eq!(after(&moved).unwrap().wrote_unread_by(&reader(110)), Some(200));
    let back = [&moved[..], &[("a", 300, started("resume"))]].concat();
    assert_eq!(after(&back).unwrap().wrote_unread_by(&reader(110)), Some(200));
    assert_eq!(
        after(&back).unwrap().left,
        [ClosedConversation { conversation_id: "b".to_owned(), wrote_boot_ms: 300 }]
    );
    // Of another boot, all was read.
    let mut old = turn;
    old.identity.boot = "before".to_owned();
    assert_eq!(old.wrote_unread_by(&reader(110)), None);
}

#[test]
fn a_prompt_that_was_held_up_writes_nothing_at_its_end() {
    let opened = after(&[("a", 1, started("resume"))]).unwrap();
    let held = OpenConversation { is_held_up: true, ..opened };
    let told = |told: HookEvent| {
        OpenConversation::after(Some(&held), &agent_of(11), &report("a", 5, told), 5).unwrap()
    };
    assert_eq!(told(HookEvent::Stopped { answer: None }).wrote_boot_ms, None);
    let goes_on = told(prompt());
    assert_eq!((goes_on.wrote_boot_ms, goes_on.is_held_up), (Some(5), false));
}

#[test]
fn of_two_that_open_it_in_one_millisecond_the_second_to_be_noted_is_the_second() {
    let first = OpenConversation { opened_boot_ms: 9, ..after(&[("a", 9, prompt())]).unwrap() };
    let mut second = first.clone();
    second.identity.pid = 3;
    second.opened_boot_ms = next_opening(std::slice::from_ref(&first), &second);
    assert!(first.rank() < second.rank(), "its lower pid put it first");
    // A process that prompted in the same millisecond wrote text that the other lacks.
    assert_eq!(first.wrote_unread_by(&second), Some(9));
}

#[test]
fn the_wall_clock_does_not_decide_which_process_came_first() {
    let first = after(&[("a", 500, started("startup"))]).unwrap();
    // The clock was set back between the two.
    let set_back = report("a", 100, started("resume"));
    let second = OpenConversation::after(None, &agent_of(12), &set_back, 600).unwrap();
    assert!(second.opened_ms < first.opened_ms && first.rank() < second.rank());
}

#[test]
fn b6_a_process_that_reopens_its_own_conversation_has_had_it_all_along() {
    for how in ["resume", "compact", "startup"] {
        let again =
            after(&[("a", 1, started("startup")), ("a", 5, prompt()), ("a", 9, started(how))]).unwrap();
        assert_eq!(again.opened_ms, 1, "{how}");
        assert_eq!(again.loaded_boot_ms, if how == "compact" { 1 } else { 9 }, "{how}");
    }
}

#[test]
fn a_missed_start_is_made_up_for_by_the_next_event() {
    for told in [prompt(), HookEvent::Tool { name: "Bash".to_owned() }, HookEvent::Stopped { answer: None }] {
        assert_eq!(after(&[("a", 3, told)]).map(|holder| holder.opened_ms), Some(3));
    }
    let missed_clear = after(&[("a", 1, started("startup")), ("b", 2, prompt())]).unwrap();
    assert_eq!((missed_clear.conversation_id.as_str(), missed_clear.opened_ms), ("b", 2));
    // An end opens nothing, and a late event changes nothing.
    assert_eq!(after(&[("a", 1, HookEvent::Ended { why: "other".to_owned() })]), None);
    let late = after(&[("b", 1, started("clear")), ("a", 2, HookEvent::Stopped { answer: None })]).unwrap();
    assert_eq!(late.conversation_id, "b");
}

#[test]
fn e13_a_record_has_nothing_that_was_said_and_no_secret() {
    let (_root, holders) = lab();
    let what = "Bash: curl --token abcdefghijklmnop https://x".to_owned();
    let needs = HookEvent::NeedsYou { what, waits: false };
    let holder = after(&[("a", 1, started("startup")), ("a", 2, prompt()), ("a", 3, needs)]).unwrap();
    holders.write(&holder).unwrap();
    let text = fs::read_to_string(holders.file("claude", &holder.identity)).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("abcdefghijklmnop"), "{text}");
    assert!(matches!(holder.doing, HookActivity::NeedsYou { what } if what.contains("curl")));
}

#[test]
fn a_record_is_read_as_it_was_written_and_damage_is_passed_over_and_kept() {
    let (_root, holders) = lab();
    let mut holder = after(&[("a", 1, started("startup")), ("a", 2, prompt())]).unwrap();
    holder.identity = ProcessIdentity::me().unwrap();
    holders.write(&holder).unwrap();
    assert_eq!(
        holders.all(),
        OpenConversationRecords { holders: vec![holder.clone()], ..OpenConversationRecords::default() }
    );
    let other = |name: &str| holders.dir.join(name);
    fs::copy(holders.file("claude", &holder.identity), other("claude.1.1.json")).unwrap();
    fs::write(other("claude.2.2.json"), b"{\"kind\":").unwrap();
    fs::write(other("claude.3.3.json"), vec![b' '; 70 << 10]).unwrap();
    fs::write(other("codex.4.4.json"), b"\0\xff").unwrap();
    let found = holders.all();
    assert_eq!((found.holders.len(), found.damaged.len()), (1, 4), "{found:?}");
    assert_eq!(holders.sweep(u64::MAX), 0, "a living process' record was removed");
    assert!(["claude.1.1.json", "claude.2.2.json"].iter().all(|name| other(name).exists()));
}

#[test]
fn an_empty_record_left_by_a_power_cut_is_not_damage_and_is_removed() {
    let (_root, holders) = lab();
    let [mut mine, gone] = [1, 2].map(|at| after(&[("a", at, started("startup"))]).unwrap());
    mine.identity = ProcessIdentity::me().unwrap();
    let empty = [&mine, &gone].map(|holder| holders.file("claude", &holder.identity));
    empty.iter().for_each(|file| fs::write(file, b"").unwrap());
    assert_eq!(holders.all(), OpenConversationRecords::default());
    // A living process may be about to write its own.
    assert_eq!(holders.sweep(0), 1);
    assert_eq!(empty.map(|file| file.exists()), [true, false]);
    holders.write(&mine).unwrap();
    assert_eq!(holders.of_process("claude", &mine.identity), Some(mine));
}

#[test]
fn f14_a_record_goes_only_when_its_process_is_proven_gone_and_it_is_old() {
    let (_root, holders) = lab();
    let holder = after(&[("a", 1000, started("startup"))]).unwrap();
    holders.write(&holder).unwrap();
    assert!(!holder.is_alive(), "no process has that identity");
    assert_eq!(holders.sweep(1000 + KEPT_MS), 0, "it is not old yet");
    let mine = OpenConversation { identity: ProcessIdentity::me().unwrap(), ..holder.clone() };
    holders.write(&mine).unwrap();
    assert_eq!(holders.sweep(1001 + KEPT_MS), 1);
    assert_eq!(holders.all().holders, vec![mine]);
}

#[test]
fn records_of_gone_processes_make_room_oldest_first_and_needed_ones_stay() {
    let (_root, holders) = lab();
    let boot = ProcessIdentity::me().unwrap().boot;
    let gone = |pid: u32, id: &str, at: u64| {
        let mut holder = after(&[(id, at, prompt()), (id, at, HookEvent::Stopped { answer: None })]).unwrap();
        // No process started at that tick of this boot.
        holder.identity = ProcessIdentity { pid, start_ticks: u64::MAX, boot: boot.clone() };
        holders.write(&holder).unwrap();
        holder
    };
    // The oldest of all wrote text that a living one has not read.
    let needed = gone(1, "a", 10);
    let mut living = after(&[("a", 5, started("resume"))]).unwrap();
    living.identity = ProcessIdentity::me().unwrap();
    holders.write(&living).unwrap();
    let many = u32::try_from(MANY_RECORDS).unwrap();
    let others: Vec<OpenConversation> = (2..many).map(|pid| gone(pid, "b", 100 + u64::from(pid))).collect();
    assert_eq!(holders.all_with_room().holders.len(), MANY_RECORDS, "there is room");
    let last = gone(many, "b", 100 + u64::from(many));
    let kept = holders.all_with_room().holders;
    assert_eq!((kept.len(), holders.all().holders.len()), (KEPT_RECORDS, KEPT_RECORDS));
    assert!(kept.contains(&needed) && kept.contains(&living) && kept.contains(&last));
    assert!(!kept.contains(&others[0]) && kept.contains(others.last().unwrap()));
}

#[test]
fn in_a_full_directory_living_processes_are_found() {
    let (_root, holders) = lab();
    for pid in 0..MAX_RECORDS {
        fs::write(holders.dir.join(format!("claude.{pid}.1.json")), b"").unwrap();
    }
    let mut living = after(&[("a", 5, started("resume"))]).unwrap();
    living.identity = ProcessIdentity::me().unwrap();
    holders.write(&living).unwrap();
    let found = holders.all();
    assert_eq!((&found.holders, found.left_out), (&vec![living], 1));
    assert!(holders.any_of(&[std::process::id()]));
}

#[test]
fn one_id_in_two_accounts_is_two_conversations() {
    let one = after(&[("a", 1, started("startup"))]).unwrap();
    let elsewhere =
        OpenConversation { transcript: Some("/home/v/.claude/projects/-w/a.jsonl".into()), ..one.clone() };
    let other_project =
        OpenConversation { transcript: Some("/home/u/.claude/projects/-x/a.jsonl".into()), ..one.clone() };
    let unknown = OpenConversation { transcript: None, ..one.clone() };
    assert!(!one.is_of_one_with(&elsewhere));
    assert!(one.is_of_one_with(&other_project) && one.is_of_one_with(&unknown));
}

#[test]
fn e2_a_record_that_has_our_name_from_an_earlier_boot_is_of_another_process() {
    let (_root, holders) = lab();
    let mine = after(&[("a", 1, started("startup"))]).unwrap();
    let mut old = mine.clone();
    old.identity.boot = "before".to_owned();
    holders.write(&old).unwrap();
    assert_eq!(holders.file("claude", &old.identity), holders.file("claude", &mine.identity));
    assert_eq!(holders.of_process("claude", &mine.identity), None);
    holders.write(&mine).unwrap();
    assert_eq!(holders.of_process("claude", &mine.identity), Some(mine));
}
