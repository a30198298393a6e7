//! Agents: the table of known agents, and which of them are installed on this host.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use berth_api::{AccessScope, Problem, ProblemCode, ViewerRights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app_state::AppState;
use crate::http_problem::HttpProblem;
use crate::routes::Route;
use crate::single_flight::ProbeCache;
use crate::viewer_filter::{JsonAnswer, ViewerFiltered};

/// How long the result of a search is cached: each search starts every agent there is, to ask its version.
const COUNTS_FOR: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<Route> {
    use ProblemCode::*;

    vec![
        Route::get("agents", "/v1/agents", AccessScope::Read, agents)
            .about("The known agents, and which of them are installed on this host.")
            .filtered()
            .gives::<AgentList>(200, "the table")
            .fails(&[Refused]),
    ]
}

/// The table of known agents.
#[derive(Serialize, JsonSchema)]
struct AgentList {
    /// Agents that berth can start.
    #[schemars(with = "Vec<AgentView>")]
    #[serde(serialize_with = "as_list")]
    agents: Arc<[AgentView]>,
    /// Age of this table, in milliseconds. The gateway caches it for a few seconds.
    age_ms: u64,
}

fn as_list<S: serde::Serializer>(agents: &Arc<[AgentView]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(agents.iter())
}

/// An agent, and its program on this host. `berth agents --json` prints the same object.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentView {
    /// Name of the agent, as `agent` of a new session takes it.
    name: String,
    /// Short description of the agent.
    about: Option<String>,
    /// Driver that berth talks to it with: `pty` for a terminal, `acp`, or the agent's own protocol.
    driver: String,
    /// Kind of conversations that the agent writes.
    #[serde(rename = "conversation_kind")]
    conversation: Option<String>,
    /// True if the agent's program is installed on this host.
    installed: bool,
    /// Version of the installed program, as the program itself prints it.
    version: Option<String>,
    /// Problem that prevented finding the version or the program.
    trouble: Option<String>,
    /// Path of the program.
    path: Option<String>,
    /// Command that starts the agent, and its arguments.
    command: Vec<String>,
    /// Command that starts the agent's own terminal interface, and its arguments.
    tui: Option<Vec<String>>,
    /// Instructions to install the agent.
    install: Option<String>,
    /// Source of the entry: `built-in` or `config`.
    source: String,
}

impl ViewerFiltered for AgentList {
    fn hide_from(&mut self, viewer: &ViewerRights) {
        if viewer.scope < AccessScope::Control {
            let mut agents = self.agents.to_vec();
            for agent in &mut agents {
                viewer.mask(&mut agent.command);
                agent.tui.iter_mut().for_each(|tui| viewer.mask(tui));
            }
            self.agents = agents.into();
        }
    }
}

/// Cache of the last search.
pub(crate) type AgentCache = ProbeCache<(), Arc<[AgentView]>>;

/// An empty cache.
pub(crate) fn known_agents() -> AgentCache {
    ProbeCache::new(|_| COUNTS_FOR)
}

async fn agents(State(state): State<Arc<AppState>>) -> Result<JsonAnswer<AgentList>, HttpProblem> {
    let (agents, age) = state.agents.ask((), look_for_agents).await?;
    Ok(JsonAnswer(AgentList { agents, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) }))
}

/// Runs in a process of its own: after asking programs for their versions the search ends every process below itself,
/// and below a gateway are keepers.
fn look_for_agents() -> Result<Arc<[AgentView]>, Problem> {
    let failed = |why: String| Problem::refused(format!("cannot look for agents: {why}"));
    let mut asking = Command::new(berth_host::spawn::THIS_PROGRAM);
    asking.args(["agents", "--json"]).stdin(Stdio::null());
    let asked = asking.output().map_err(|error| failed(error.to_string()))?;
    if !asked.status.success() {
        return Err(failed(String::from_utf8_lossy(&asked.stderr).trim().to_owned()));
    }
    let agents: Vec<AgentView> =
        serde_json::from_slice(&asked.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(agents.into())
}
