//! Turns from the outside, with an agent that writes down what it did: each accepted turn ran at most once, one at a
//! time, in order, in one conversation, with any process killed meanwhile.
//!
//! `BERTH_TURN_ROUNDS=500` runs the races that often, `BERTH_SEED=N` repeats a run.
//! Start with [`common::PromptRecord`], the record of one prompt in the agent's own transcript.

mod answer;
mod bad_input;
mod cancel;
pub(crate) mod common;
mod conversations;
mod crash;
mod failed;
mod first;
mod history;
mod keys;
mod leaving;
mod lost_lease;
mod order;
mod outcomes;
mod queue;
mod random;
mod resumes;
mod secrets;
mod silent;
mod slow_disk;
mod starting;
mod strange_clients;
mod talking;
mod time;

use common::*;
