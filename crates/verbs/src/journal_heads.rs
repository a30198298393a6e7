//! The head of a session's journal: noted elsewhere, it shows later whether anything before it was edited.
//!
//! Promise: a head covers committed events only, so a crash never makes a noted head wrong. Verifying writes nothing.
//! Not here: noting heads. A head that is stored beside the journal can be edited with it (see docs/recovery.md).
//! Start with [`head`] and [`verify`].

use berth_api::Problem;
use berth_core::SessionId;
use berth_journal::ChainHead;
use serde::Serialize;

use crate::VerbContext;

/// The head of a session's journal.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JournalHead {
    /// The id of the session.
    pub session: String,
    /// The number of the last event that the hash stands for.
    pub number: u64,
    /// SHA-256 of the chain up to that event, in hexadecimal digits.
    pub hash: String,
    /// Number and hash as one word, as [`verify`] takes it.
    pub head: String,
}

/// The result of a comparison of a journal with heads that were noted earlier.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct JournalVerification {
    /// The id of the session.
    pub session: String,
    /// True if every head matches.
    pub unchanged: bool,
    /// The last event up to which everything is proven to be what it was; 0 if nothing is.
    pub unchanged_up_to: u64,
    /// The first event that may be another, or missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_from: Option<u64>,
    /// The last event that may be another: the first wrong head was noted at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changed_to: Option<u64>,
    /// How many events the journal has, if a head was noted at a later one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<u64>,
    /// The journal files that hold the events in question.
    pub segments: Vec<String>,
}

/// The head at the last committed event.
pub fn head(ctx: &VerbContext, id: &SessionId) -> Result<JournalHead, Problem> {
    // The status comes first: events that the keeper is writing now are in the file before they are committed.
    let committed = ctx.status(id)?.seq;
    let (_, head) = ctx.home.session(id).heads(&[committed])?;
    let text = head.to_string();
    let hash = text.split_once(':').map(|(_, hash)| hash.to_owned()).unwrap_or_default();
    Ok(JournalHead { session: id.to_string(), number: head.seq.0, hash, head: text })
}

/// Compares the journal with heads that were noted earlier. A head that matches proves everything up to it, so several
/// heads narrow down where an edit is.
pub fn verify(ctx: &VerbContext, id: &SessionId, noted: &[String]) -> Result<JournalVerification, Problem> {
    let mut heads = Vec::new();
    for text in noted {
        let head: ChainHead = text.parse().map_err(|error| {
            Problem::usage(format!("`{text}` is not a valid head: {error}"))
                .hint("`berth log S --head` prints one")
        })?;
        heads.push(head);
    }
    heads.sort_by_key(|head| head.seq);
    let at: Vec<u64> = heads.iter().map(|head| head.seq.0).collect();
    let session = ctx.home.session(id);
    let (found, last) = session.heads(&at)?;
    // A match proves everything up to it, even if an older head does not match: then the older head itself is wrong, and
    // is reported as well.
    let matches = heads.iter().filter(|head| found.contains(head));
    let unchanged_up_to = matches.map(|head| head.seq.0).max().unwrap_or(0);
    let wrong = heads.iter().find(|head| !found.contains(head));
    let mut verification = JournalVerification {
        session: id.to_string(),
        unchanged: wrong.is_none(),
        unchanged_up_to,
        changed_from: None,
        changed_to: None,
        events: None,
        segments: vec![],
    };
    if let Some(wrong) = wrong {
        let before = heads.iter().filter(|head| head.seq < wrong.seq && found.contains(head));
        let from = before.map(|head| head.seq.0).max().unwrap_or(0) + 1;
        verification.unchanged_up_to = from - 1;
        verification.changed_from = Some(from);
        verification.changed_to = Some(wrong.seq.0);
        verification.events = (last.seq < wrong.seq).then_some(last.seq.0);
        verification.segments = session.segments_of(from, wrong.seq.0)?;
    }
    Ok(verification)
}

impl JournalVerification {
    /// The sentence for people if something changed.
    pub fn problem(&self, session: &str) -> Option<Problem> {
        let (from, to) = self.changed_from.zip(self.changed_to)?;
        let files = self.segments.join(", ");
        let what = match self.events {
            Some(events) => format!(
                "the journal of session `{session}` is shorter than it was: it has {events} events, and the head was \
                 noted at event {to}"
            ),
            None => format!(
                "the journal of session `{session}` is not what it was: an event from number {from} to {to} was changed \
                 after the head was noted (in {files})"
            ),
        };
        let hint = "compare it with a backup, and make sure that the head was noted of this session; a head noted earlier \
                    narrows it down";
        Some(Problem::refused(what).hint(hint))
    }
}
