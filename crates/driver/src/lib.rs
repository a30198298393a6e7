//! Drivers: how we talk to one kind of agent that takes turns.
//!
//! Each speaks a protocol of lines over pipes and is a machine behind one seam, [`Driver`]: what the agent
//! wrote goes in line by line; lines for it, and [`Update`]s for the keeper, come out. Everything an agent
//! wrote is in the output files, and our own request ids follow from turn numbers, so a driver that hears
//! the same lines again (after the keeper replaced its program in place, or to find out what became of a
//! turn) comes to the same state.
//! Promise: whatever the agent writes, a driver never panics, never grows without limit, and never claims
//! more than its agent proved.
//! Not here: I/O, clocks, randomness; processes and pipes (the keeper has them); queue and states of turns
//! (`berth_core` has them).
//! Start with [`Driver`], then [`Update`]; [`AgentTraits`] has what else agents do in their own ways.

#![forbid(unsafe_code)]

pub mod acp;
pub mod claude;
pub mod codex;
mod common;
pub mod hooks;
mod interruption;
pub mod output;
pub mod rpc;
mod traits;

use berth_core::{Ask, Reply, TurnEnd};
pub use common::failure_in;
pub use interruption::Interruption;
pub use traits::{AgentTraits, ChildMarks, WriterSign};

/// How much of an answer is kept. The whole of it is in the output files.
pub const MAX_ANSWER_BYTES: usize = 1 << 20;

/// How a run takes its conversation up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begin {
    /// A new conversation. The id is ours to give if the agent lets us; see [`Driver::mints`].
    New {
        /** The id we gave it. */
        id: Option<String>,
    },
    /// The conversation of this id, with everything said in it.
    Resume {
        /** Its id. */
        id: String,
    },
    /// A new conversation that begins with everything said in another one.
    Fork {
        /** The other one. */
        of: String,
        /** The id we gave the new one. */
        id: Option<String>,
    },
}

/// What an agent's word is good for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Proves {
    /// It says that it took a prompt.
    pub accepted: bool,
    /// It says that a turn is over, and how.
    pub ended: bool,
    /// A conversation can be taken up again.
    pub resume: bool,
    /// Text can be added to a turn that runs.
    pub steer: bool,
}

/// The driver of this name for a session; `None` for an agent in a terminal, or a name that is not known.
pub fn of(driver: &str, session: &str) -> Option<Box<dyn Driver>> {
    match driver {
        "acp" => Some(Box::new(acp::Acp::new())),
        "claude" => Some(Box::new(claude::Claude::new(session))),
        "codex" => Some(Box::new(codex::Codex::new())),
        _ => None,
    }
}

/// One kind of agent's protocol.
pub trait Driver: std::fmt::Debug {
    /// What its agent can prove. May change when the agent has said what it is able to do.
    fn proves(&self) -> Proves;

    /// Whether a new conversation's id is ours to give.
    fn mints(&self) -> bool;

    /// The whole command line: what the person gave, and what the protocol needs.
    fn command_line(&self, command: &[String], begin: &Begin) -> Vec<String>;

    /// The first words to a new process. [`Update::Ready`] follows when it takes prompts, or
    /// [`Update::Broken`]. `cwd` is absolute.
    fn begin(&mut self, begin: &Begin, cwd: &str, out: &mut Out);

    /// After [`Trouble::NoConversation`]: begins a new conversation with the same process, and goes on as after
    /// [`Driver::begin`]. `false` if it cannot.
    fn begin_anew(&mut self, _cwd: &str, _out: &mut Out) -> bool {
        false
    }

    /// One line the agent wrote, without its end. Bytes, because an agent may write anything.
    fn hear(&mut self, line: &[u8], out: &mut Out);

    /// Gives it the prompt of a turn. Only when it is ready and no turn is running.
    fn prompt(&mut self, turn: u64, text: &str, out: &mut Out);

    /// Adds the text of turn `by` to the turn that is running. [`Update::Began`] of `by` follows if the agent
    /// takes it; [`Update::Ended`] of it if that is known before the turn it was added to is over.
    fn steer(&mut self, by: u64, text: &str, out: &mut Out);

    /// Asks it to interrupt the turn that is running. [`Update::Ended`] follows.
    fn interrupt(&mut self, turn: u64, out: &mut Out);

    /// Answers what it asked, with a reply that fits the question. No [`Update::Unasked`] follows: a caller that answers
    /// knows. [`Update::Asks`] follows if the agent asked several things at once: they are asked one after the other.
    fn answer(&mut self, request: &str, reply: &Reply, out: &mut Out);

    /// The id under which the agent itself records the prompt of a turn, if that is ours to give and like no other.
    fn message_id(&self, _turn: u64) -> Option<String> {
        None
    }

    /// Whether the agent prints the ids of all messages that it writes into its own record.
    fn prints_record_ids(&self) -> bool {
        false
    }

    /// The last words to it, before its input is closed.
    fn goodbye(&mut self, out: &mut Out);
}

/// What comes out of a driver.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Out {
    /// Bytes for the agent's standard input, whole lines with their ends.
    pub bytes: Vec<u8>,
    /// What the keeper should know, in the order it was said.
    pub updates: Vec<Update>,
}

impl Out {
    /// A line for the agent.
    pub fn line(&mut self, value: &impl serde::Serialize) {
        serde_json::to_writer(&mut self.bytes, value)
            .expect("a message is plain data and a Vec takes any write");
        self.bytes.push(b'\n');
    }

    /// Something for the keeper.
    pub fn update(&mut self, update: Update) {
        self.updates.push(update);
    }

    /// The agent named its model, unless it is empty.
    fn uses(&mut self, model: &str) {
        if !model.is_empty() {
            self.update(Update::Model { model: model.to_owned() });
        }
    }

    /// The agent reports its context. Zero tokens are what agents say when they do not know.
    fn holds(&mut self, used: Option<u64>, window: Option<u64>) {
        let context =
            Context { used: used.filter(|used| *used > 0), window: window.filter(|size| *size > 0) };
        self.update(Update::Context { context });
    }
}

/// What an agent told us.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// It takes prompts now.
    Ready,
    /// It writes this conversation now: at the beginning (before [`Update::Ready`] where the id is known by
    /// then), and whenever it changes.
    Conversation {
        /** The agent's own id of it. */
        id: String,
    },
    /// It uses this model.
    Model {
        /** As the agent calls it. */
        model: String,
    },
    /// The context window after the latest request to the model. Each replaces the one before.
    Context {
        /** How full it is. */
        context: Context,
    },
    /// It says that it has the prompt of this turn.
    Began {
        /** Which. */
        turn: u64,
    },
    /// A piece of the answer, as text for people.
    Said {
        /** It. */
        text: String,
    },
    /// What it does at the moment, for people.
    Doing {
        /** It. */
        activity: Activity,
    },
    /// It needs an answer before it goes on.
    Asks {
        /** To what. */
        ask: Ask,
    },
    /// A question no longer waits for an answer.
    Unasked {
        /** Which. */
        request: String,
    },
    /// A turn is over.
    Ended {
        /** Which. */
        turn: u64,
        /** How. */
        end: TurnEnd,
    },
    /// It did more after a turn was over without having been asked (a background task came back).
    Late {
        /** The turn that was over last. */
        turn: u64,
        /** What it said. */
        end: TurnEnd,
    },
    /// Worth a line in the journal: garbage on its output, a request nobody understands.
    Remark {
        /** For people. */
        what: String,
    },
    /// It cannot be used: this run has to end.
    Broken {
        /** Why. */
        trouble: Trouble,
    },
}

/// How much of its context window an agent uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Context {
    /// Tokens in it; `None` if the agent does not say so any more, as after some compactions.
    pub used: Option<u64>,
    /// Tokens that it has room for, if the agent said so since its process began.
    pub window: Option<u64>,
}

/// What an agent does at the moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    /// `thinking`, `writing`, or the name of a tool.
    pub what: String,
    /// The tool's command or file, one line.
    pub detail: String,
    /// Tokens used in this turn so far, in and out together, if it says so.
    pub tokens: Option<u64>,
}

/// Why an agent cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Trouble {
    /// The conversation to take up is not there.
    NoConversation {
        /** Its id. */
        id: String,
    },
    /// Somebody else writes the conversation, says the agent.
    InUse {
        /** What it said. */
        said: String,
    },
    /// It wants somebody to log in.
    NotLoggedIn {
        /** What it said. */
        said: String,
    },
    /// It does not speak its protocol, or says that it cannot go on.
    Protocol {
        /** What it said, or what is wrong. */
        said: String,
    },
}
