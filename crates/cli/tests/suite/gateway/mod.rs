//! The gateway, asked over HTTP. The row of the scenario list is in the name of the test.

use berth_harness::TestEnvironment;

fn lab() -> TestEnvironment {
    TestEnvironment::new(env!("CARGO_BIN_EXE_berth"))
}

#[test]
fn a_gateway_killed_with_sigkill_takes_nothing_along_and_the_next_one_serves_the_same() {
    let lab = lab();
    let mut gateway = lab.serve();
    assert_eq!(gateway.get("/healthz").ok()["status"], "ok");
    let id = lab.start_with(&["--name", "fix"], &["hang"]);
    let known =
        |gateway: &berth_harness::GatewayProcess| gateway.get("/v1/sessions").ok()["sessions"].clone();
    assert_eq!(known(&gateway)[0]["id"], id);
    let before = gateway.get("/v1/sessions/fix").ok();
    gateway.kill();
    let gateway = lab.serve();
    let after = gateway.get("/v1/sessions/fix").ok();
    assert_eq!((&before["pid"], &before["keeper_pid"]), (&after["pid"], &after["keeper_pid"]));
    gateway.get("/v1/sessions/other").problem(404, "not-found");
    gateway.get("/nothing").problem(404, "not-found");
}
