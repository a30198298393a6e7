//! One connection on standard input and output: the other end of ssh, which has said who it is.

use std::sync::Arc;

use berth_api::{Code, Problem};
use berth_keeper::Home;

use crate::auth::{Door, Peer};
use crate::gate::Gate;
use crate::server;

/// Serves until the other side has heard enough. They may do what this process may.
pub fn serve_stdio(home: Home) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime =
        runtime.map_err(|error| Problem::new(Code::Refused, format!("the proxy cannot start: {error}")))?;
    let pid = i32::try_from(std::process::id()).ok();
    let inside = Arc::new(berth_verbs::caller::of_pid(&home, std::process::id()));
    let peer = Peer::Local { uid: rustix::process::getuid().as_raw(), pid, inside };
    let door = Door::new(&home, &[], &[])?;
    let router = crate::routes::router(Gate::new(home, door));
    runtime.block_on(server::connection(
        tokio::io::join(tokio::io::stdin(), tokio::io::stdout()),
        peer,
        router,
    ));
    // A thread may still wait for standard input.
    runtime.shutdown_background();
    Ok(())
}
