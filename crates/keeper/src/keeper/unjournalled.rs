//! Reports that wait for a disk that takes nothing.
//!
//! Promise: the world says most things once, so they wait however long that takes; what an agent tells is bounded.
//! Start with [`add`].

use berth_core::{Epoch, Observation, Told};

/// How much of what an agent tells may wait.
const MOST_TOLD: usize = 256;
/// The same in bytes of text.
const MOST_TOLD_BYTES: usize = 16 << 20;

/// Puts reports behind those that wait. An agent goes on telling meanwhile: past a limit it counts as one that tells
/// nothing. What it does now is known again with its next word, and how its turn ended is not claimed.
pub(super) fn add(waiting: &mut Vec<Observation>, reports: Vec<Observation>, epoch: Epoch) {
    for report in reports {
        // What an agent tells is a sequence, in which the same may come again; everything else is true or not.
        if is_told(&report) || !waiting.contains(&report) {
            waiting.push(report);
        }
    }
    let told = waiting.iter().filter(|report| is_told(report));
    let (count, bytes) = told.fold((0, 0), |(count, bytes), told| (count + 1, bytes + text_bytes(told)));
    if count > MOST_TOLD || bytes > MOST_TOLD_BYTES {
        tracing::warn!(count, bytes, "what the agent told is dropped: the disk takes nothing");
        waiting.retain(|report| !is_told(report));
        waiting.push(Observation::Told { epoch, told: Told::Quiet { end: None } });
    }
}

fn is_told(report: &Observation) -> bool {
    matches!(report, Observation::Told { .. })
}

fn text_bytes(report: &Observation) -> usize {
    match report {
        Observation::Told { told: Told::Prompt { text }, .. } => text.len(),
        Observation::Told { told: Told::Stopped { answer, .. }, .. } => {
            answer.as_ref().map_or(0, String::len)
        }
        // What else an agent tells is short, and what the world reports is not counted.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use berth_core::EndProof;

    use super::*;

    const EPOCH: Epoch = Epoch(3);

    fn told(told: Told) -> Observation {
        Observation::Told { epoch: EPOCH, told }
    }

    fn quiet() -> Observation {
        told(Told::Quiet { end: None })
    }

    fn of_the_world() -> Observation {
        Observation::HooksCarried { epoch: EPOCH }
    }

    #[test]
    fn what_the_world_reports_waits_once_and_what_an_agent_tells_as_often_as_it_does() {
        let mut waiting = vec![];
        for _ in 0..2 {
            add(&mut waiting, vec![of_the_world(), told(Told::Tool)], EPOCH);
        }
        assert_eq!(waiting, [of_the_world(), told(Told::Tool), told(Told::Tool)]);
    }

    #[test]
    fn f4_an_agent_that_goes_on_telling_counts_as_one_that_tells_nothing() {
        let mut waiting = vec![of_the_world()];
        add(&mut waiting, vec![told(Told::Tool); MOST_TOLD], EPOCH);
        assert_eq!(waiting.len(), 1 + MOST_TOLD, "so many may wait");
        add(
            &mut waiting,
            vec![told(Told::Stopped { answer: None, cut: false, proof: EndProof::HookOnly })],
            EPOCH,
        );
        assert_eq!(waiting, [of_the_world(), quiet()], "no end is claimed, and nothing else is lost");
        // Its next word says what it does now.
        add(&mut waiting, vec![told(Told::Tool)], EPOCH);
        assert_eq!(waiting, [of_the_world(), quiet(), told(Told::Tool)]);
    }

    #[test]
    fn f4_long_prompts_and_answers_are_bounded_by_their_size() {
        let long = || "x".repeat(MOST_TOLD_BYTES / 2);
        let mut waiting = vec![];
        add(&mut waiting, vec![told(Told::Prompt { text: long() })], EPOCH);
        add(
            &mut waiting,
            vec![told(Told::Stopped { answer: Some(long()), cut: false, proof: EndProof::HookOnly })],
            EPOCH,
        );
        assert_eq!(waiting.len(), 2);
        add(&mut waiting, vec![told(Told::Prompt { text: "x".into() })], EPOCH);
        assert_eq!(waiting, [quiet()]);
    }
}
