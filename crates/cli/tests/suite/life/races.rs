//! Two commands that restore one session at once. Seeded, so that a failure can be repeated.

use berth_harness::SeededRng;
use berth_host::process_tree;

use crate::life::{archived, finish, lab, rounds, spawn, state};

/// How many agents of this session there are, of any run. (They have no children.)
fn agents(id: &str) -> usize {
    process_tree::processes_with_variable("BERTH_SESSION", id).expect("/proc can be read").processes.len()
}

/// B8: an archived session that several commands restore at once has one agent.
#[test]
fn b8_an_archived_session_that_two_bring_back_at_once_has_one_agent() {
    let mut seed = SeededRng::announce("b8");
    let lab = lab();
    let id = archived(&lab, "once");
    let verbs = [vec!["resume", "-d", "once"], vec!["restore", "once"]];
    for round in 0..rounds(60) {
        // Two resumes, a resume and a restore, or two restores; in either order.
        let pair = [&verbs[(seed.below(3) / 2) as usize], &verbs[seed.below(2) as usize]];
        let one = spawn(&lab, pair[0]);
        seed.dawdle(12_000);
        let two = spawn(&lab, pair[1]);
        let said = [finish(one), finish(two)];
        let resumes = pair.iter().filter(|args| args[0] == "resume").count();
        for (args, said) in pair.iter().zip(&said) {
            match (args[0], said.code) {
                ("restore", 0) | ("resume", 0) => {}
                ("resume", 4) if resumes == 2 => {
                    assert!(said.err.contains("hint:") && said.out.is_empty(), "round {round}: {said:?}");
                }
                _ => panic!("round {round}: {pair:?}: {said:?}"),
            }
        }
        let started = pair.iter().zip(&said).filter(|(args, said)| args[0] == "resume" && said.code == 0);
        assert_eq!(started.count(), resumes.min(1), "round {round}: {pair:?}: {said:?}");
        assert_eq!(agents(&id), resumes.min(1), "round {round}: {pair:?}");
        assert_eq!(state(&lab, "once"), if resumes > 0 { "running" } else { "stopped" }, "round {round}");
        lab.ok(["archive", "--stop", "--grace", "0s", "once"]);
        assert_eq!(agents(&id), 0, "round {round}");
        assert_eq!(lab.events(&id, "archived").len() as u64, round + 2, "round {round}");
        assert_eq!(lab.events(&id, "restored").len() as u64, round + 1, "round {round}: once each time");
    }
}

/// One command archives the session while the other starts it: it runs, or it is archived, never both.
#[test]
fn b8_archiving_races_resuming_and_one_of_them_wins() {
    let mut seed = SeededRng::announce("b8 archive");
    let lab = lab();
    let id = crate::life::stopped(&lab, "torn");
    for round in 0..rounds(40) {
        let resume = spawn(&lab, ["resume", "-d", "torn"]);
        seed.dawdle(12_000);
        let archive = spawn(&lab, ["archive", "torn"]);
        let (resume, archive) = (finish(resume), finish(archive));
        assert_eq!(resume.code, 0, "round {round}: it may always be started: {resume:?}");
        // Archived before it was started, or refused because it runs.
        assert!(matches!(archive.code, 0 | 4), "round {round}: {archive:?}");
        assert_eq!((state(&lab, &id).as_str(), agents(&id)), ("running", 1), "round {round}");
        lab.ok(["stop", "--grace", "0s", "torn"]);
    }
}
