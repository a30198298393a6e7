//! Reports that wait because the disk takes nothing.
//!
//! Promise: most reports come only once, so they wait as long as necessary; the number of an agent's own
//! reports is bounded.
//! Start with [`WaitingReports::add`].

use berth_core::{Epoch, Observation, ProcessExit, TerminalReport};

/// The number of an agent's own reports that may wait.
const MOST_TOLD: usize = 256;
/// The bytes of text that these may have.
const MOST_TOLD_BYTES: usize = 16 << 20;

/// Reports that the journal has not taken, oldest first.
#[derive(Debug, Default)]
pub(super) struct WaitingReports(Vec<Observation>);

impl WaitingReports {
    /// Puts reports behind those that wait. An agent goes on reporting meanwhile: past a limit it counts as one that
    /// reports nothing. Its next report gives its activity then, and no outcome is claimed for its turn.
    pub(super) fn add(&mut self, reports: Vec<Observation>, epoch: Epoch) {
        let waiting = &mut self.0;
        for report in reports {
            // An agent's own reports are a sequence, in which equal ones may repeat; other facts are true or not.
            if is_told(&report) || !waiting.contains(&report) {
                waiting.push(report);
            }
        }
        let told = waiting.iter().filter(|report| is_told(report));
        let (count, bytes) = told.fold((0, 0), |(count, bytes), told| (count + 1, bytes + text_bytes(told)));
        if count > MOST_TOLD || bytes > MOST_TOLD_BYTES {
            tracing::warn!(count, bytes, "reports of the agent are dropped: the disk takes nothing");
            waiting.retain(|report| !is_told(report));
            waiting.push(Observation::Told { epoch, told: TerminalReport::Quiet { end: None } });
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
    pub(super) fn exit(&self) -> Option<ProcessExit> {
        exit_among(self.iter())
    }
}

/// The exit among some reports.
pub(super) fn exit_among<'a>(mut reports: impl Iterator<Item = &'a Observation>) -> Option<ProcessExit> {
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
        Observation::Told { told: TerminalReport::Prompt { text }, .. } => text.len(),
        Observation::Told { told: TerminalReport::Stopped { answer, .. }, .. } => {
            answer.as_ref().map_or(0, String::len)
        }
        // Other reports of an agent are short, and those about the world are not counted.
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use berth_core::EndProof;

    use super::*;

    const EPOCH: Epoch = Epoch(3);

    fn told(told: TerminalReport) -> Observation {
        Observation::Told { epoch: EPOCH, told }
    }

    fn quiet() -> Observation {
        told(TerminalReport::Quiet { end: None })
    }

    fn of_the_world() -> Observation {
        Observation::HooksInjected { epoch: EPOCH }
    }

    #[test]
    fn reports_about_the_world_wait_once_and_those_of_an_agent_as_often_as_they_come() {
        let mut waiting = WaitingReports::default();
        for _ in 0..2 {
            waiting.add(vec![of_the_world(), told(TerminalReport::Tool)], EPOCH);
        }
        assert_eq!(waiting.0, [of_the_world(), told(TerminalReport::Tool), told(TerminalReport::Tool)]);
    }

    #[test]
    fn f4_an_agent_that_goes_on_telling_counts_as_one_that_tells_nothing() {
        let mut waiting = WaitingReports(vec![of_the_world()]);
        waiting.add(vec![told(TerminalReport::Tool); MOST_TOLD], EPOCH);
        assert_eq!(waiting.0.len(), 1 + MOST_TOLD, "so many may wait");
        waiting.add(
            vec![told(TerminalReport::Stopped { answer: None, cut: false, proof: EndProof::HookOnly })],
            EPOCH,
        );
        assert_eq!(waiting.0, [of_the_world(), quiet()], "no end is claimed, and nothing else is lost");
        // Its next report gives its activity again.
        waiting.add(vec![told(TerminalReport::Tool)], EPOCH);
        assert_eq!(waiting.0, [of_the_world(), quiet(), told(TerminalReport::Tool)]);
    }

    #[test]
    fn f4_long_prompts_and_answers_are_bounded_by_their_size() {
        let long = || "x".repeat(MOST_TOLD_BYTES / 2);
        let mut waiting = WaitingReports::default();
        waiting.add(vec![told(TerminalReport::Prompt { text: long() })], EPOCH);
        waiting.add(
            vec![told(TerminalReport::Stopped {
                answer: Some(long()),
                cut: false,
                proof: EndProof::HookOnly,
            })],
            EPOCH,
        );
        assert_eq!(waiting.0.len(), 2);
        waiting.add(vec![told(TerminalReport::Prompt { text: "x".into() })], EPOCH);
        assert_eq!(waiting.0, [quiet()]);
    }
}
