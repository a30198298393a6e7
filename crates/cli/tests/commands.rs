//! The commands as scripts use them: exit codes, JSON, names, bad input.

use berth_harness::Lab;

fn lab() -> Lab {
    Lab::new(env!("CARGO_BIN_EXE_berth"))
}

#[test]
fn a_foreground_run_passes_output_and_exit_code_through_and_stays_listed() {
    let lab = lab();
    let said = lab.berth(["run", "--", "sh", "-c", "echo out; exit 3"]);
    assert_eq!((said.code, said.out.as_str()), (3, "out\n"));
    let listed = lab.json(["ls", "--json"]);
    assert_eq!(listed[0]["state"], "stopped");
    assert_eq!(listed[0]["exit"], 3);
}
