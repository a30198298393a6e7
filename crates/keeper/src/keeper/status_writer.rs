//! The status file of a session: when it is written, and the fields that are in no journal (the model, its context,
//! the branch, and the last messages in an agent's own interface).
//!
//! Promise: text that a user typed into a terminal is in no event; only the beginning of the latest one is in
//! `status.json`, which the next run continues from. The keeper never waits for the directory of the session, which may be
//! on a network that is gone: a thread reads the branch.
//! Not here: the other fields of a status (`Keeper::status`).

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use berth_api::SessionStatus;
use berth_api::status::ContextStatus;
use berth_core::Event;
use berth_driver::ContextUsage;
use berth_host::clock;
use berth_host::dir::untrusted_kind;
use berth_journal::Committed;
use berth_store::session_view::{LastExchange, StoredEvent};
use berth_store::{SessionFiles, SessionView};

use crate::git_branch;

/// The longest name of a model.
const MAX_MODEL_BYTES: usize = 200;
/// How long a keeper waits for the branch before it says that its run started, so that a list has it at once.
pub(super) const FIRST_BRANCH_PATIENCE: Duration = Duration::from_millis(20);
/// The time that a keeper that leaves waits for the branch.
pub(super) const LAST_BRANCH_PATIENCE: Duration = Duration::from_millis(200);
const THREAD_STACK_BYTES: usize = 128 * 1024;

/// The status file, and the fields that are kept in memory and there only.
#[derive(Debug, Default)]
pub(super) struct StatusWriter {
    /// The time at which the file is to be written, on the boot clock.
    due_at_ms: Option<u64>,
    /// The last prompt and answer of an agent in a terminal, by its hooks.
    last_said: LastExchange,
    model: Option<String>,
    /// How full the context window was after the latest request in `conversation`.
    context: Option<ContextStatus>,
    conversation: Option<String>,
    branch: BranchReader,
}

/// The branch of the directory, as read last.
#[derive(Debug, Default)]
struct BranchReader {
    branch: Option<String>,
    /// The channel on which the thread sends the branch.
    reading: Option<Receiver<Option<String>>>,
}

impl BranchReader {
    /// Begins to read the branch, unless a thread still does.
    fn begin(&mut self, dir: PathBuf) {
        self.take(Duration::ZERO);
        if self.reading.is_some() {
            return;
        }
        let (sender, receiver) = sync_channel(1);
        let read = move || {
            let is_local = matches!(untrusted_kind(&dir), Ok(None));
            let _ = sender.send(is_local.then(|| git_branch::checked_out_branch(&dir)).flatten());
        };
        let thread = std::thread::Builder::new().stack_size(THREAD_STACK_BYTES).spawn(read);
        self.reading = thread.is_ok().then_some(receiver);
    }

    /// Takes the branch if the thread delivers it within `patience`.
    fn take(&mut self, patience: Duration) {
        let Some(reading) = &self.reading else { return };
        match reading.recv_timeout(patience) {
            Ok(branch) => (self.branch, self.reading) = (branch, None),
            Err(RecvTimeoutError::Disconnected) => self.reading = None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

impl StatusWriter {
    /// Begins with the status that the last run left.
    pub(super) fn of(files: &SessionFiles) -> Self {
        let Some(old) = files.read_status_cache() else { return Self::default() };
        let last_said = match old.what.has_terminal() {
            true => LastExchange { prompt: old.last_prompt, answer: old.last_answer },
            false => LastExchange::default(),
        };
        let branch = BranchReader { branch: old.branch, reading: None };
        let (context, conversation) = (old.context, old.conversation_id);
        Self { due_at_ms: None, last_said, model: old.model, context, conversation, branch }
    }

    /// The agent's hooks report a prompt.
    pub(super) fn note_prompt(&mut self, text: &str) {
        self.last_said.prompted(text);
    }

    /// The agent's hooks report an answer.
    pub(super) fn note_answer(&mut self, text: &str) {
        self.last_said.answered(text);
    }

    /// The agent reports its model.
    pub(super) fn note_model(&mut self, model: String) {
        if (1..=MAX_MODEL_BYTES).contains(&model.len()) && !model.contains(char::is_control) {
            if let Some(context) = self.context.as_mut().filter(|_| self.model.as_ref() != Some(&model)) {
                context.window_tokens = None;
            }
            self.model = Some(model);
        }
    }

    /// The agent reports its context. One that has just been started may not know the size of the window yet, which is
    /// as large as it was.
    pub(super) fn note_context(&mut self, context: ContextUsage) {
        let window_tokens = context.window.or(self.context.and_then(|old| old.window_tokens));
        self.context = context.used.map(|used_tokens| ContextStatus { used_tokens, window_tokens });
    }

    /// The agent is in this conversation: the context of another one tells nothing about it.
    pub(super) fn note_conversation(&mut self, conversation: &str) {
        if self.conversation.as_deref() != Some(conversation) {
            self.conversation = Some(conversation.to_owned());
            self.context = None;
        }
    }

    /// The end of a turn in a terminal is proven later than its hook reports it. Turns of another interface count as
    /// well: the answer is always one to the prompt.
    pub(super) fn follow(&mut self, events: &[Committed<StoredEvent>], history: &SessionView) {
        for event in events {
            match &event.get().event {
                Event::TurnDelivered { turn, .. } => {
                    if let Some(turn) = history.session.turns.open(*turn) {
                        self.last_said.prompted(&turn.prompt);
                    }
                }
                Event::TurnEnded { end, .. } => self.last_said.answered(&end.answer),
                // The context of an agent in a terminal is not known, and stays unknown after that.
                Event::RunStarted { .. } if history.session.has_terminal() => self.context = None,
                Event::ConversationEntered { conversation } => self.note_conversation(&conversation.id),
                Event::ConversationLeft { .. } => (self.conversation, self.context) = (None, None),
                _ => {}
            }
        }
    }

    /// Begins to read the branch of the session's directory. A later status may have it.
    fn read_branch(&mut self, cwd: &str) {
        self.branch.begin(PathBuf::from(cwd));
    }

    /// Schedules a write of the file within this time, with the branch of `cwd`.
    pub(super) fn write_within(&mut self, ms: u64, cwd: &str) {
        if self.due_at_ms.is_none() {
            self.read_branch(cwd);
        }
        let at = clock::boot_ms() + ms;
        self.due_at_ms = Some(self.due_at_ms.map_or(at, |earlier| earlier.min(at)));
    }

    /// The time at which the file is to be written, on the boot clock.
    pub(super) fn due_at_ms(&self) -> Option<u64> {
        self.due_at_ms
    }

    /// The file is written now. Takes the branch, if it has been read.
    pub(super) fn begin_write(&mut self) {
        self.due_at_ms = None;
        self.branch.take(Duration::ZERO);
    }

    /// Reads the branch for a status that is written now, and waits no longer than `patience` for it.
    pub(super) fn read_branch_within(&mut self, cwd: &str, patience: Duration) {
        self.read_branch(cwd);
        self.branch.take(patience);
    }

    /// Fills in the fields that do not follow from a history.
    pub(super) fn fill(&self, has_terminal: bool, status: &mut SessionStatus) {
        status.model = self.model.clone();
        status.context = self.context;
        status.branch = self.branch.branch.clone();
        if has_terminal && self.last_said.prompt.is_some() {
            let LastExchange { prompt, answer } = self.last_said.clone();
            (status.last_prompt, status.last_answer) = (prompt, answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use berth_test_dir::TestDir;

    use super::*;

    #[test]
    fn the_branch_is_read_in_a_thread_and_kept_until_another_one_is_read() {
        let dir = TestDir::new();
        fs::create_dir_all(dir.join(".git")).expect("a directory");
        let mut reader = BranchReader::default();
        for name in ["one", "two"] {
            fs::write(dir.join(".git/HEAD"), format!("ref: refs/heads/{name}\n")).expect("a file");
            let before = reader.branch.clone();
            reader.begin(dir.to_path_buf());
            assert_eq!(reader.branch, before, "the caller does not wait for it");
            reader.take(Duration::from_secs(30));
            assert_eq!(reader.branch.as_deref(), Some(name));
        }
    }

    #[test]
    fn a_window_stays_known_for_its_model_and_a_context_for_its_conversation() {
        let mut extras = StatusWriter::default();
        let shown = |extras: &StatusWriter| {
            let mut status = SessionStatus::default();
            extras.fill(false, &mut status);
            status.context.map(|context| (context.used_tokens, context.window_tokens))
        };
        extras.note_conversation("one");
        extras.note_model("large".to_owned());
        extras.note_context(ContextUsage { used: Some(5), window: Some(100) });
        extras.note_context(ContextUsage { used: Some(7), window: None });
        extras.note_conversation("one");
        extras.note_model("large".to_owned());
        assert_eq!(shown(&extras), Some((7, Some(100))));
        extras.note_model("small".to_owned());
        assert_eq!(shown(&extras), Some((7, None)));
        extras.note_context(ContextUsage { used: Some(8), window: Some(50) });
        assert_eq!(shown(&extras), Some((8, Some(50))));
        extras.note_conversation("two");
        assert_eq!(shown(&extras), None);
        extras.note_context(ContextUsage { used: Some(1), window: Some(50) });
        extras.note_context(ContextUsage { used: None, window: Some(50) });
        assert_eq!(shown(&extras), None, "not zero");
    }

    #[test]
    fn a_directory_that_does_not_answer_has_one_thread_and_the_last_branch_stays() {
        let (sender, receiver) = sync_channel(1);
        let mut reader = BranchReader { branch: Some("main".to_owned()), reading: Some(receiver) };
        reader.begin(PathBuf::from("/"));
        assert_eq!(reader.branch.as_deref(), Some("main"));
        sender.send(Some("late".to_owned())).expect("the same thread is waited for");
        reader.take(Duration::ZERO);
        assert_eq!(reader.branch.as_deref(), Some("late"));
    }
}
