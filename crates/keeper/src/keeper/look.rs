//! Who is looking, and telling those who are not.
//!
//! Looking is who is told of the event over a connection that it keeps up: attached, following the turn, or
//! watching the session. One whose screen is behind has not taken anything for a while (a laptop that was closed
//! keeps its connection for hours), and a script that waits cannot answer a question.

use berth_api::client::NO_TERMINAL;
use berth_core::{Event, Occasion};
use berth_journal::Committed;
use berth_store::history::Stored;
use berth_store::killpoint;

use super::{Keeper, turns};
use crate::clients::Client;
use crate::notify::{self, Teller};

impl Keeper {
    /// Starts the notifier for what nobody was looking at. What it tells of is on disk.
    pub(super) fn tell_those_who_do_not_look(&mut self, events: &[Committed<Stored>]) {
        if !self.begun {
            return;
        }
        let mut told = notify::worth_telling(&self.owner.history().session, events);
        told.retain(|(seq, occasion)| {
            let event = events.iter().find(|event| event.seq().0 == *seq);
            !event.is_some_and(|event| self.is_looked_at(&event.get().event, *occasion))
        });
        if told.is_empty() {
            return;
        }
        killpoint::reached("telling");
        notify::tell(&self.dir, &told, Teller::Keeper, &mut self.notify);
        killpoint::reached("told");
    }

    fn is_looked_at(&self, event: &Event, occasion: Occasion) -> bool {
        self.clients.values().any(|client| looks(client, event, occasion))
    }
}

fn looks(client: &Client, event: &Event, occasion: Occasion) -> bool {
    let may_act = match occasion {
        Occasion::NeedsYou => !client.actor.place.starts_with(NO_TERMINAL),
        Occasion::Failed | Occasion::Finished => true,
    };
    let sees = client.attached.is_some_and(|attached| !attached.behind);
    // A turn may be over before who sent it has come to follow it.
    let mut of_interest = client.follows.into_iter().chain(client.waits_for);
    let follows = of_interest.any(|turn| turns::concerns(event, turn));
    let awaits = client.awaits_end || client.awaits_agent || client.awaits_ready;
    may_act && (sees || follows || client.watches || awaits)
}
