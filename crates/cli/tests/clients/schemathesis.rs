//! schemathesis: requests that the description allows, requests that it forbids, and requests at the edge of both.

use std::process::Command;

use crate::{described, lab, pointed, run, scripts, serve, tools};

/// Schemathesis looks for server errors, statuses, media types, headers and bodies that are not described, wrong data
/// that is accepted, methods that are not there, and things that live on when they were deleted. Checks that are left
/// out, and why, are in `testing/clients/schemathesis.toml`.
#[test]
fn schemathesis_finds_nothing() {
    let (lab, tools) = (lab(), tools());
    let cwd = lab.dir().display().to_string();
    for name in ["talk", "stopped"] {
        lab.ok(["run", "-d", "--agent", "fake", "--name", name, "--cwd", &cwd]);
    }
    lab.ok(["stop", "stopped", "--grace", "0s"]);
    lab.start_with(&["--name", "shell"], &["say:ready\\r\\n", "echo"]);
    lab.ok(["send", "talk", "hello"]);
    lab.ok(["helper", "ensure", "server", "--owner", "talk", "--", &lab.agent(), "hang"]);
    let description = described(&lab);
    let (mut gateway, token) = serve(&lab, "schemathesis");
    let address = gateway.address.clone().expect("it listens");
    let mut try_it = Command::new(tools.join("python/bin/schemathesis"));
    try_it.arg("--config-file").arg(scripts().join("schemathesis.toml")).arg("run").arg(description);
    try_it.arg("--url").arg(format!("http://{address}")).current_dir(lab.dir());
    try_it.env("BERTH_FAKE_AGENT", lab.agent()).env("BERTH_TOKEN_NAME", "schemathesis");
    try_it.env("PYTHONPATH", scripts()).env("PYTHONDONTWRITEBYTECODE", "1").env("NO_COLOR", "1");
    // The seed of its config file, or another.
    if let Ok(seed) = std::env::var("BERTH_SEED") {
        try_it.args(["--seed", &seed]);
    }
    pointed(&mut try_it, &lab, &gateway, &token);
    let said = run(&mut try_it);
    assert!(said.contains("No issues found") || said.contains("passed"), "{said}");
    assert!(gateway.is_running(), "{said}");
    // Sessions that it started end with the test.
    for id in lab.ok(["ls", "--all", "--quiet"]).lines() {
        lab.berth(["stop", id, "--grace", "0s"]);
    }
}
