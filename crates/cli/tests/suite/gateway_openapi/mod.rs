//! The description of the API, checked against the answers of a running gateway; and input that is not valid.
//!
//! Start with [`berth_harness::OpenApiDescription::holds`]. Every problem that any test hears is checked against it as well.

mod answers;
mod bad_input;
mod refusals;

use berth_harness::TestEnvironment;

/// A lab whose config file has the agent `fake`.
fn lab() -> TestEnvironment {
    TestEnvironment::with_agent(env!("CARGO_BIN_EXE_berth"))
}
