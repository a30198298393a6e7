//! Conversations of the real agents, against the fake model.

mod conversations;
