//! What a sweep found, and what it did about it.

use berth_api::{Code, Problem};
use schemars::JsonSchema;
use serde::Serialize;

use crate::copies::Tidied;

/// What was found, and what was done about it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "SweepReport")]
pub struct Report {
    /// Whether nothing was to be changed.
    pub dry_run: bool,
    /// Sources of knowledge that failed. If there is one, nothing was cleared up.
    pub failed: Vec<String>,
    /// Ours and alive.
    pub alive: Vec<Alive>,
    /// Ours and left over.
    pub left_over: Vec<Cleared>,
    /// Records without a process, and what else is no longer used.
    pub no_process: Vec<Cleared>,
    /// Sessions that were at rest for as long as their policy says, and were put away.
    pub archived: Vec<Cleared>,
    /// Processes with a claim of ours and no record.
    pub no_record: Vec<Stranger>,
    /// What could not be told.
    pub cannot_tell: Vec<Stranger>,
    /// Agents that no session has started: theirs who started them.
    pub foreign: Vec<Stranger>,
    /// Records that cannot be read. What is theirs is kept.
    pub damaged: Vec<String>,
    /// How many processes could not be looked into: those of other users.
    pub unreadable: usize,
    /// What became of copies of transcripts; nothing if they were not looked at.
    pub history: Option<Tidied>,
}

/// A session or helper that runs.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Alive {
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: Option<String>,
    /// How many processes it has, its keeper included.
    pub processes: usize,
}

/// Something that was cleared up, or would be.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Cleared {
    /// What it is, for people.
    pub what: String,
    /// The session it is of, if it is of one.
    pub session: Option<String>,
    /// The processes that were found, for people.
    pub processes: Vec<String>,
    /// What was done: `cleared`, `would be cleared`, `kept`, or why it failed.
    pub done: Done,
}

/// What became of something.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Done {
    /// It is gone, proven.
    Cleared,
    /// It would be cleared up, were it not a dry run.
    Would,
    /// It is kept because a source of knowledge failed.
    Kept,
    /// It could not be cleared up, for this reason.
    Failed(String),
}

/// A process that is not ours to end.
#[derive(Clone, PartialEq, Debug, Serialize, JsonSchema)]
pub struct Stranger {
    /// Its number.
    pub pid: u32,
    /// Its age.
    pub age_ms: u64,
    /// What it runs.
    pub command: String,
    /// The account it runs as.
    pub uid: Option<u32>,
    /// Who it probably belongs to.
    pub guess: String,
    /// Why it is left alone.
    pub why: String,
    /// Whether no sweep has told of it before.
    pub is_new: bool,
}

impl Report {
    /// What is to be done about it, if something is.
    pub fn trouble(&self) -> Option<Problem> {
        if let Some(first) = self.failed.first() {
            return Some(
                Problem::new(Code::Refused, format!("nothing was cleared up: {first}"))
                    .hint("mend that, then sweep again; what is not known to be garbage is kept"),
            );
        }
        let all = self.left_over.iter().chain(&self.no_process).chain(&self.archived);
        let failed = all.into_iter().find_map(|cleared| match &cleared.done {
            Done::Failed(why) => Some(format!("{}: {why}", cleared.what)),
            Done::Cleared | Done::Would | Done::Kept => None,
        });
        failed.map(|what| Problem::new(Code::Refused, format!("could not be cleared up: {what}")))
    }
}
