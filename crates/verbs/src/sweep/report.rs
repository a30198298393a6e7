//! The report of a sweep: what it found, and what it did about it.
//!
//! Not here: printing it (see the CLI), the finds themselves (see [`super::sweep`]).
//! Start with [`SweepReport`].

use berth_api::Problem;
use berth_conversations::transcript_copies::CopyCleanup;
use schemars::JsonSchema;
use serde::Serialize;

/// Report of a sweep: its finds, and what was done about each.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "SweepReport")]
pub struct SweepReport {
    /// True if nothing was to be changed.
    pub dry_run: bool,
    /// Sources of knowledge that failed. If there is one, nothing was cleared up.
    pub failed: Vec<String>,
    /// Sessions and helpers of ours that run.
    pub alive: Vec<LiveSession>,
    /// Runs of ours without a keeper.
    pub left_over: Vec<SweepFinding>,
    /// Records without a process, and other things that are no longer used.
    pub no_process: Vec<SweepFinding>,
    /// Sessions that were archived because they were at rest for as long as their policy says.
    pub archived: Vec<SweepFinding>,
    /// Processes with a claim of ours and no record.
    pub no_record: Vec<ForeignProcess>,
    /// Processes that could not be attributed.
    pub cannot_tell: Vec<ForeignProcess>,
    /// Agents that no session has started: they belong to the user or program that started them.
    pub foreign: Vec<ForeignProcess>,
    /// Records that cannot be read. The files of such a session are kept.
    pub damaged: Vec<String>,
    /// Number of processes that could not be looked into: those of other users.
    pub unreadable: usize,
    /// Result of limiting the copies of transcripts; absent if they were not examined.
    pub history: Option<CopyCleanup>,
}

/// A session or helper that runs.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct LiveSession {
    /// Id of the session or helper.
    pub id: String,
    /// Name of the session or helper, if it has one.
    pub name: Option<String>,
    /// Number of its processes, its keeper included.
    pub processes: usize,
}

/// Something that was cleared up, or would be.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct SweepFinding {
    /// Description of the thing, for people.
    pub what: String,
    /// Id of the session that it belongs to; absent if it belongs to none.
    pub session: Option<String>,
    /// The processes that were found, for people.
    pub processes: Vec<String>,
    /// Outcome: `cleared`, `would be cleared`, `kept`, or why it failed.
    pub done: SweepOutcome,
}

/// Outcome for one find of a sweep.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SweepOutcome {
    /// Cleared up, and proven gone.
    Cleared,
    /// Would be cleared up, were this not a dry run.
    Would,
    /// Kept because a source of knowledge failed.
    Kept,
    /// Could not be cleared up, for this reason.
    Failed(String),
}

/// A process that is not ours to end.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct ForeignProcess {
    /// Id of the process.
    pub pid: u32,
    /// Age of the process in milliseconds.
    pub age_ms: u64,
    /// Command line of the process, without secrets.
    pub command: String,
    /// User id the process runs as; absent if unknown.
    pub uid: Option<u32>,
    /// Probable owner, in words.
    pub guess: String,
    /// Reason why the process is left alone.
    pub why: String,
    /// True if no earlier sweep has reported the process.
    pub is_new: bool,
}

impl SweepReport {
    /// The error that the report amounts to, if it does.
    pub fn trouble(&self) -> Option<Problem> {
        if let Some(first) = self.failed.first() {
            return Some(
                Problem::refused(format!("nothing was cleaned up: {first}"))
                    .hint("fix the cause and run `berth sweep` again"),
            );
        }
        let all = self.left_over.iter().chain(&self.no_process).chain(&self.archived);
        let failed = all.into_iter().find_map(|cleared| match &cleared.done {
            SweepOutcome::Failed(why) => Some(format!("{}: {why}", cleared.what)),
            SweepOutcome::Cleared | SweepOutcome::Would | SweepOutcome::Kept => None,
        });
        failed.map(|what| Problem::refused(format!("could not be cleared up: {what}")))
    }
}
