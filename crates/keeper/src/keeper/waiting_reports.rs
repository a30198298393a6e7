//! Reports that wait for a disk that takes nothing.
//!
//! Promise: the world says most things once, so reports wait as long as necessary; what an agent tells is bounded.
//! Start with [`WaitingReports::add`].

use berth_core::{Epoch, Exit, Observation, Told};

/// How many of an agent's own reports may wait.
const MOST_TOLD: usize = 256;
/// How many bytes of text these may have.
const MOST_TOLD_BYTES: usize = 16 << 20;

/// Reports that the journal has not taken, oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingReports(Vec<Observation>);

impl WaitingReports {
    /// Puts reports behind those that wait. An agent goes on telling meanwhile: past a limit it counts as one that tells
    /// nothing. Its next word says what it does then, and how its turn ended is not claimed.
    pub(super) fn add(&mut self, reports: Vec<Observation>, epoch: Epoch) {
        let waiting = &mut self.0;
        for report in reports {
            // An agent's own reports are a sequence, in which the same one may come again; other facts are true or not.
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Observation> {
        self.0.iter()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn contains(&self, report: &Observation) -> bool {
        self.0.contains(report)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// True if the end of the whole run waits to be recorded.
    pub(super) fn has_end_of_run(&self) -> bool {
        self.iter().any(|report| matches!(report, Observation::Empty { .. }))
    }

    /// The process of an agent whose start waits to be recorded.
    pub(super) fn spawned_pid(&self) -> Option<u32> {
        self.iter().find_map(|report| match report {
            Observation::Spawned { agent, .. } => Some(agent.pid),
            _ => None,
        })
    }

    /// The exit of an agent that waits to be recorded.
    pub(super) fn exit(&self) -> Option<Exit> {
        exit_among(self.iter())
    }
}

/// The exit among some reports.
pub(super) fn exit_among<'a>(mut reports: impl Iterator<Item = &'a Observation>) -> Option<Exit> {
    reports.find_map(|report| match report {
        Observation::Exited { exit, .. } => Some(*exit),
        _ => None,
    })
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
        let mut waiting = WaitingReports::default();
        for _ in 0..2 {
            waiting.add(vec![of_the_world(), told(Told::Tool)], EPOCH);
        }
        assert_eq!(waiting.0, [of_the_world(), told(Told::Tool), told(Told::Tool)]);
    }

    #[test]
    fn f4_an_agent_that_goes_on_telling_counts_as_one_that_tells_nothing() {
        let mut waiting = WaitingReports(vec![of_the_world()]);
        waiting.add(vec![told(Told::Tool); MOST_TOLD], EPOCH);
        assert_eq!(waiting.0.len(), 1 + MOST_TOLD, "so many may wait");
        waiting.add(vec![told(Told::Stopped { answer: None, cut: false, proof: EndProof::HookOnly })], EPOCH);
        assert_eq!(waiting.0, [of_the_world(), quiet()], "no end is claimed, and nothing else is lost");
        // Its next word says what it does now.
        waiting.add(vec![told(Told::Tool)], EPOCH);
        assert_eq!(waiting.0, [of_the_world(), quiet(), told(Told::Tool)]);
    }

    #[test]
    fn f4_long_prompts_and_answers_are_bounded_by_their_size() {
        let long = || "x".repeat(MOST_TOLD_BYTES / 2);
        let mut waiting = WaitingReports::default();
        waiting.add(vec![told(Told::Prompt { text: long() })], EPOCH);
        waiting.add(
            vec![told(Told::Stopped { answer: Some(long()), cut: false, proof: EndProof::HookOnly })],
            EPOCH,
        );
        assert_eq!(waiting.0.len(), 2);
        waiting.add(vec![told(Told::Prompt { text: "x".into() })], EPOCH);
        assert_eq!(waiting.0, [quiet()]);
    }
}
