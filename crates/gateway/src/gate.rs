//! What every request shares: where the sessions are, and nothing that has to outlive the process.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;
use tokio_util::sync::CancellationToken;

use crate::fault::Fault;
use crate::metrics::Metrics;
use crate::server::Options;
use crate::trace;

/// Shared by all requests.
#[derive(Debug)]
pub(crate) struct Gate {
    /// The state directory.
    pub(crate) home: Home,
    /// What is counted.
    pub(crate) metrics: Arc<Metrics>,
    /// Cancelled when the gateway is told to end. What lasts listens to it; streams of events end by themselves.
    pub(crate) ending: CancellationToken,
    /// What was wanted of this gateway.
    pub(crate) options: Options,
}

/// Runs a verb: verbs wait for keepers and disks, and must not hold up other requests.
pub(crate) async fn work<T: Send + 'static>(
    verb: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Fault> {
    let trace = trace::current();
    match tokio::task::spawn_blocking(move || berth_api::trace::within(trace, verb)).await {
        Ok(done) => done.map_err(Fault::from),
        Err(error) => Err(Problem::new(Code::Bug, format!("a verb failed: {error}")).into()),
    }
}
