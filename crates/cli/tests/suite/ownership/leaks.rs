//! G9: processes and groups that the tests themselves leave behind are found, and fail them.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::ownership::{group_of, has_groups, lab};

/// The text of the panic with which a lab is dropped, if it panics.
fn complaint(lab: berth_harness::TestEnvironment) -> Option<String> {
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(lab)));
    dropped.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

#[test]
fn g9_a_test_that_leaves_a_control_group_behind_fails_and_the_group_goes() {
    if !has_groups() {
        return;
    }
    for (place, prefix) in [("version 2", ""), ("version 1", "berth-")] {
        let lab = lab();
        let id = lab.start(&["say:ready", "hang"]);
        lab.wait_output(&id, "ready");
        let group = match place {
            "version 2" => group_of(&lab, &id).expect("a group").with_file_name(format!("{id}.7")),
            _ => {
                let limited = lab.berth(["run", "-d", "--max-procs", "9", "--", &lab.agent(), "hang"]);
                let paths = lab.show(limited.out.trim())["boundary"]["limited_in"].clone();
                // With limits in version 2 there are no such groups.
                let Some(path) = paths[0].as_str() else { continue };
                std::path::Path::new(path).with_file_name(format!("{prefix}{id}.7"))
            }
        };
        fs::create_dir(&group).expect("a group");
        let complaint = complaint(lab);
        let left = group.exists();
        assert!(
            complaint.is_some_and(|text| text.contains("control groups") && text.contains(&id)),
            "{place}"
        );
        assert!(!left, "{place}");
    }
}

#[test]
fn g9_a_test_that_leaves_nothing_passes() {
    let lab = lab();
    let id = lab.start(&["say:ready", "hang"]);
    lab.wait_output(&id, "ready");
    assert_eq!(complaint(lab), None);
}
