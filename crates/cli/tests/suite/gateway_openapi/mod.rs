//! The description of the API, held against what a running gateway answers; and input that makes no sense.
//!
//! Start with [`berth_harness::Description::holds`]. Every problem that any test hears is held against it, too.

mod answers;
mod bad_input;
mod refusals;

use berth_harness::Lab;

/// A lab whose config file has the agent `fake`.
fn lab() -> Lab {
    Lab::with_agent(env!("CARGO_BIN_EXE_berth"))
}
