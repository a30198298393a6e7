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
    let lab = Lab::new(env!("CARGO_BIN_EXE_berth"));
    let store = lab.dir().join("store");
    std::fs::create_dir(&store).expect("a directory for transcripts");
    let command = [&lab.agent(), "acp", "--store", &store.display().to_string()];
    let config = format!("[agents.fake]\ndriver = \"acp\"\nconversation = \"fake\"\ncommand = {command:?}\n");
    std::fs::write(lab.config(), config).expect("a config file");
    lab
}
