//! Proxies in front of the gateway: which of them may name the address of a client.

use berth_harness::GatewayProcess;

use crate::gateway_auth::{lab, serve};

/// The status of a request with a wrong token that is said to come from this address.
fn wrong_token_from(gateway: &GatewayProcess, forwarded: &str) -> u16 {
    let headers = [("Authorization", "Bearer berth_wrong"), ("X-Forwarded-For", forwarded)];
    gateway.ask_tcp("GET", "/v1/whoami", &headers, None).status
}

#[test]
fn behind_a_trusted_proxy_wrong_tokens_count_for_the_client_that_sent_them() {
    let lab = lab();
    std::fs::write(lab.config(), "[serve]\ntrusted_proxies = [\"127.0.0.0/8\"]\n").expect("a config");
    let gateway = serve(&lab);
    // An address that the client itself wrote stands left of the one that the proxy adds.
    let told: Vec<u16> =
        (0..12).map(|number| wrong_token_from(&gateway, &format!("10.0.0.{number}, 198.51.100.1"))).collect();
    assert_eq!((told[0], told[11]), (401, 429), "{told:?}");
    assert_eq!(wrong_token_from(&gateway, "198.51.100.2"), 401);
    let token = lab.ok(["token", "new", "--scope", "read", "--name", "bot"]);
    let bearer = format!("Bearer {}", token.trim());
    let headers = [("Authorization", bearer.as_str()), ("X-Forwarded-For", "198.51.100.7")];
    let told = gateway.ask_tcp("GET", "/v1/whoami", &headers, None).ok();
    assert!(told.to_string().contains("198.51.100.7"), "{told}");
}

#[test]
fn without_a_trusted_proxy_the_header_is_ignored() {
    let lab = lab();
    let gateway = serve(&lab);
    let told: Vec<u16> =
        (0..12).map(|number| wrong_token_from(&gateway, &format!("198.51.100.{number}"))).collect();
    assert_eq!((told[0], told[11]), (401, 429), "{told:?}");
}

#[test]
fn a_proxy_that_is_not_an_address_is_refused() {
    let lab = lab();
    std::fs::write(lab.config(), "[serve]\ntrusted_proxies = [\"proxy.example.org\"]\n").expect("a config");
    let said = lab.berth(["serve"]);
    assert!(said.code == 2 && said.err.contains("trusted_proxies"), "{said:?}");
}
