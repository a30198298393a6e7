//! Settings of an account: the config file, the table of agents, tokens, and the other hosts that it uses.
//!
//! Promise: a key that is not known is refused with its place; a token is valid only with a seal that was made here.
//! Not here: sessions and what is done with them (see `berth-verbs`); keepers read no config.
//! Start with [`config::Config::load`], [`agents::AgentTable`], [`tokens`] and [`hosts`].

#![forbid(unsafe_code)]

pub mod agents;
#[expect(missing_docs, reason = "the fields are the keys of the config, and `registry` explains each")]
pub mod config;
pub mod hosts;
pub mod tokens;
