//! The description of the API, held against what a running gateway answers; and input that makes no sense.
//!
//! Start with [`described::Description::holds`].

mod answers;
mod bad_input;
mod described;
mod refusals;

use berth_harness::Lab;

/// A lab whose config file has the agent `fake`.
fn lab() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}
