//! A fleet on a private PostgreSQL, for tests.

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use berth_core::SessionId;
use berth_fleet::engine::CreateAnswer;
use berth_fleet::pg::{FleetAdmin, FleetUrl, PgEngine};
use berth_fleet::{EngineError, EventNumber, FleetEngine, HostId, Incarnation, RecordText};
use berth_test_postgres::{PgOptions, PgServer};

use crate::names::{create, name};

/// Limit of a call whose answer must come.
pub(crate) const PATIENT: Duration = Duration::from_secs(60);
/// Limit of a call that must not be answered.
pub(crate) const IMPATIENT: Duration = Duration::from_millis(700);
/// Role that owns the schema, without rights of a superuser.
pub(crate) const OWNER: &str = "berth";
/// As many rows as there are.
pub(crate) const ALL: u32 = i32::MAX as u32;

pub(crate) struct TestFleet {
    pub(crate) server: PgServer,
}

impl TestFleet {
    /// A server with the record's schema and hosts 1 to `hosts`.
    pub(crate) async fn start(hosts: u32) -> Self {
        Self::start_with(&PgOptions::default(), hosts).await
    }

    pub(crate) async fn start_with(options: &PgOptions, hosts: u32) -> Self {
        let fleet = Self { server: PgServer::start(options) };
        fleet.make_database();
        let admin = fleet.admin().await;
        admin.migrate().await.expect("an empty database is migrated");
        for number in 1..=hosts {
            fleet.server.query("berth", &format!("CREATE ROLE host{number} LOGIN PASSWORD 'secret{number}'"));
            let host = name(&format!("host{number}"));
            let admitted = admin.admit_host(&host, host.as_str()).await.expect("a new host");
            assert_eq!(admitted, HostId(number));
        }
        fleet
    }

    /// A database without a schema, owned by a plain role.
    pub(crate) fn make_database(&self) {
        self.server.query("postgres", &format!("CREATE ROLE {OWNER} LOGIN"));
        self.server.query("postgres", &format!("CREATE DATABASE berth OWNER {OWNER}"));
    }

    pub(crate) async fn admin(&self) -> FleetAdmin {
        FleetAdmin::connect(&self.url(OWNER)).await.expect("the server runs")
    }

    /// The way of a host to the record.
    pub(crate) async fn host(&self, number: u32, limit: Duration) -> PgEngine {
        PgEngine::connect(self.url(&format!("host{number}")), limit).await.expect("an admitted host")
    }

    pub(crate) fn url(&self, role: &str) -> FleetUrl {
        let text = format!(
            "postgres:///berth?user={role}&host={}&port={}&sslmode=disable",
            self.server.socket_dir().display(),
            self.server.port().unwrap_or(5432)
        );
        FleetUrl::parse(&text).expect("a valid address")
    }

    /// A synchronous standby of the server.
    pub(crate) fn synchronous_standby(&self) -> PgServer {
        let standby = self.server.standby("standby1");
        self.server.set_synchronous_standbys(&["standby1"]);
        standby
    }
}

/// The way of a role to the primary among these servers or proxies.
pub(crate) async fn connect(role: &str, sockets: &[&Path], limit: Duration) -> Result<PgEngine, EngineError> {
    let hosts: Vec<String> = sockets.iter().map(|socket| socket.display().to_string()).collect();
    let text = format!("postgres:///berth?user={role}&host={}&sslmode=disable", hosts.join(","));
    PgEngine::connect(FleetUrl::parse(&text).expect("a valid address"), limit).await
}

/// Runs a test on a runtime of its own.
pub(crate) fn run<A>(test: impl Future<Output = A>) -> A {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Records a session that this host owns under term 1, with one event.
pub(crate) async fn owned_session(engine: &PgEngine, session: SessionId) -> Incarnation {
    let created = engine.create(create(engine.host(), session, "created")).await;
    assert!(matches!(created, Ok(CreateAnswer::Created { .. })), "{created:?}");
    engine.begin_incarnation(engine.host()).await.expect("its own host")
}

/// Bodies of a session's events. Their numbers have no gap.
pub(crate) async fn bodies(engine: &PgEngine, session: SessionId) -> Vec<RecordText> {
    let events = engine.events(session, EventNumber(1), ALL).await.expect("a read");
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event.number.0, index as u64 + 1);
    }
    events.into_iter().map(|event| event.body).collect()
}

pub(crate) fn is_unknown<A>(answer: &Result<A, EngineError>) -> bool {
    matches!(answer, Err(EngineError::OutcomeUnknown { .. }))
}
