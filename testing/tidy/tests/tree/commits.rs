//! Subjects of commits: short enough for every list.

use std::process::Command;

use berth_tidy::root;

/// Commits behind this one follow the rule; some before it do not.
const SINCE: &str = "c0478741538a03bf454dff34a3fc2a33a59a3a77";
/// The longest subject.
const MAX_CHARS: usize = 72;

#[test]
fn subjects_of_commits_have_at_most_72_characters() {
    let range = format!("{SINCE}..HEAD");
    let log = Command::new("git").args(["log", "--format=%h %s", &range]).current_dir(root()).output();
    let log = match log {
        Ok(log) if log.status.success() => log,
        // A source archive and a shallow clone have no history to check.
        Ok(_) | Err(_) => return println!("not checked: this checkout does not know commit {SINCE}"),
    };
    let log = String::from_utf8_lossy(&log.stdout);
    let subjects = log.lines().filter_map(|line| line.split_once(' '));
    let long: Vec<_> = subjects.filter(|(_, subject)| subject.chars().count() > MAX_CHARS).collect();
    assert!(long.is_empty(), "{long:#?}");
}
