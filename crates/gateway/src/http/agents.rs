//! The agents of this host: which there are, and which of them it has.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use berth_api::{Code, Problem, Scope, Viewer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::gate::Gate;
use crate::one_look::Recent;
use crate::routes::Route;
use crate::visible::{Json, Visible};

/// How long what was found counts: each look starts every agent there is, to ask its version.
const COUNTS_FOR: Duration = Duration::from_secs(5);

pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::get("agents", "/v1/agents", Scope::Read, agents)
            .about("The agents there are, and which of them this host has.")
            .filtered()
            .gives::<Agents>(200, "the table")
            .fails(&[Code::Refused]),
    ]
}

/// The agents there are.
#[derive(Serialize, JsonSchema)]
struct Agents {
    #[schemars(with = "Vec<Agent>")]
    #[serde(serialize_with = "as_list")]
    agents: Arc<[Agent]>,
    /// How long ago they were looked for, in milliseconds: who asks again within a few seconds hears the same.
    age_ms: u64,
}

fn as_list<S: serde::Serializer>(agents: &Arc<[Agent]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(agents.iter())
}

/// An agent, and what was found of it: what `berth agents --json` prints.
#[derive(Clone, Serialize, Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Agent {
    /// What it is called.
    name: String,
    /// What it is.
    about: Option<String>,
    /// Driver that berth talks to it with: `pty` for a terminal, `acp`, or the agent's own protocol.
    driver: String,
    /// Kind of conversations that the agent writes.
    #[serde(rename = "conversation_kind")]
    conversation: Option<String>,
    /// Whether this host has it.
    installed: bool,
    /// Its version.
    version: Option<String>,
    /// Why there is no version, or no program.
    trouble: Option<String>,
    /// Where its program is.
    path: Option<String>,
    /// How it is started.
    command: Vec<String>,
    /// How its own terminal interface is started.
    tui: Option<Vec<String>>,
    /// How to get it.
    install: Option<String>,
    /// Where its entry comes from: `built-in` or `config`.
    source: String,
}

impl Visible for Agents {
    fn hide_from(&mut self, viewer: &Viewer) {
        if viewer.scope < Scope::Control {
            let mut agents = self.agents.to_vec();
            for agent in &mut agents {
                viewer.mask(&mut agent.command);
                agent.tui.iter_mut().for_each(|tui| viewer.mask(tui));
            }
            self.agents = agents.into();
        }
    }
}

/// What was found a moment ago.
pub(crate) type KnownAgents = Recent<(), Arc<[Agent]>>;

/// Nothing is known yet.
pub(crate) fn known_agents() -> KnownAgents {
    Recent::new(|_| COUNTS_FOR)
}

async fn agents(State(gate): State<Arc<Gate>>) -> Result<Json<Agents>, Fault> {
    let (agents, age) = gate.agents.ask((), look_for_agents).await?;
    Ok(Json(Agents { agents, age_ms: u64::try_from(age.as_millis()).unwrap_or(u64::MAX) }))
}

/// Asked in a process of its own: whoever asks programs for their versions ends everything below itself afterwards,
/// and below a gateway are keepers.
fn look_for_agents() -> Result<Arc<[Agent]>, Problem> {
    let failed = |why: String| Problem::new(Code::Refused, format!("cannot look for agents: {why}"));
    let mut asking = Command::new(berth_host::spawn::THIS_PROGRAM);
    asking.args(["agents", "--json"]).stdin(Stdio::null());
    let asked = asking.output().map_err(|error| failed(error.to_string()))?;
    if !asked.status.success() {
        return Err(failed(String::from_utf8_lossy(&asked.stderr).trim().to_owned()));
    }
    let agents: Vec<Agent> =
        serde_json::from_slice(&asked.stdout).map_err(|error| failed(error.to_string()))?;
    Ok(agents.into())
}
