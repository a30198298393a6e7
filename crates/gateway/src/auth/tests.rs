//! The authentication layer with long requests behind it. Routes of the table are tested from outside.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use berth_config::tokens::{TokenMaker, TokenParams, TokenStore};
use berth_test_dir::TestDir;
use http_body_util::BodyExt;
use tokio::io::AsyncReadExt;
use tower::ServiceExt;

use super::*;

struct AuthFixture {
    root: TestDir,
    tokens: TokenStore,
    router: Router,
}

impl AuthFixture {
    fn new() -> Self {
        let root = TestDir::new();
        let home = StateDir::open(root.to_path_buf()).expect("a directory of our own");
        let metrics = Arc::new(crate::metrics::GatewayMetrics::new(0));
        let state = AppState::new(home.clone(), crate::server::ServeOptions::default(), metrics)
            .expect("an app state");
        let silent =
            || async { Body::from_stream(futures_util::stream::pending::<Result<Bytes, axum::Error>>()) };
        let router = Router::new()
            .route("/stream", get(silent))
            .route("/terminal", get(|| async { StatusCode::SWITCHING_PROTOCOLS }))
            .layer(axum::middleware::from_fn_with_state(state, admit));
        Self { root, tokens: TokenStore::open(&home).expect("a directory of our own"), router }
    }

    fn token(&self, life: Option<Duration>) -> String {
        let params =
            TokenParams { name: Some("bot".to_owned()), scope: AccessScope::Read, sessions: None, life };
        self.tokens
            .mint(TokenKind::Token, &params, TokenMaker { place: "a test", pass: None })
            .expect("a token")
            .secret
    }

    async fn ask(&self, path: &str, token: Option<&str>, wire: &ConnectionDetails) -> Response {
        let mut request = axum::http::Request::builder().uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut request = request.body(Body::empty()).expect("a request");
        let address = "192.0.2.1:1".parse().expect("an address");
        request.extensions_mut().insert(ConnectionPeer::Network(address));
        request.extensions_mut().insert(wire.clone());
        self.router.clone().oneshot(request).await.expect("an answer")
    }
}

impl Drop for AuthFixture {
    fn drop(&mut self) {
        // The audit log is written in the background: a line that is written meanwhile makes the removal fail once.
        while let Err(error) = std::fs::remove_dir_all(&self.root) {
            assert_eq!(error.kind(), std::io::ErrorKind::DirectoryNotEmpty, "{error}");
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

#[test]
fn a_stream_ends_when_its_token_is_revoked_in_the_middle() {
    run(async {
        let house = AuthFixture::new();
        let token = house.token(None);
        assert_eq!(house.ask("/stream", None, &ConnectionDetails::default()).await.status(), 401);
        let mut response = house.ask("/stream", Some(&token), &ConnectionDetails::default()).await;
        assert_eq!(response.status(), 200);
        let goes_on = tokio::time::timeout(revocation::CHECK_INTERVAL * 2, response.body_mut().frame()).await;
        assert!(goes_on.is_err(), "the token was not revoked: {goes_on:?}");
        house.tokens.revoke("bot", None).expect("it is there");
        assert!(response.body_mut().frame().await.is_none());
        assert_eq!(house.ask("/stream", Some(&token), &ConnectionDetails::default()).await.status(), 401);
    });
}

#[test]
fn h3_a_stream_ends_when_its_token_expires_by_our_clock() {
    run(async {
        let house = AuthFixture::new();
        let token = house.token(Some(Duration::from_millis(1500)));
        let mut response = house.ask("/stream", Some(&token), &ConnectionDetails::default()).await;
        assert_eq!(response.status(), 200);
        assert!(response.body_mut().frame().await.is_none());
        assert_eq!(house.ask("/stream", Some(&token), &ConnectionDetails::default()).await.status(), 401);
    });
}

#[test]
fn a_terminal_is_cut_off_when_its_token_is_revoked_in_the_middle() {
    run(async {
        let house = AuthFixture::new();
        let token = house.token(None);
        let wire = ConnectionDetails::default();
        let (ours, _theirs) = tokio::io::duplex(64);
        let mut line = wire.revocation.hold(ours);
        assert_eq!(house.ask("/terminal", Some(&token), &wire).await.status(), 101);
        drop(wire);
        house.tokens.revoke("bot", None).expect("it is there");
        assert_eq!(line.read(&mut [0; 8]).await.expect("an end, not an error"), 0);
    });
}
