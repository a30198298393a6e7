//! Talking on where an image of this program that was replaced had left off.

use std::cell::RefCell;
use std::io;

use berth_core::{Observation, Reply, TurnState};
use berth_driver::{Begin, MAX_ANSWER_BYTES, Out, Update};

use super::Keeper;
use crate::driver::{self, pipes::Pipes};
use crate::turn;

impl Keeper {
    /// Goes on talking to the agent of the image before this one.
    pub(in crate::keeper) fn talk_again(&mut self, pipes: Pipes, begin: Begin) -> io::Result<()> {
        let session = &self.owner.history().session;
        let Some(driver) = session.spec.as_ref().and_then(|spec| driver::of(&spec.driver, &self.id)) else {
            return Err(io::Error::other("there is no driver for it"));
        };
        self.talk_to(driver, begin, pipes, false)
    }

    /// Brings a driver to where the one of the image before this was: everything the agent has written is
    /// in the output. What we said then was said; it is not said twice.
    pub(super) fn hear_again(&mut self) {
        let session = &self.owner.history().session;
        let (from, epoch, was_ready) = (session.output_from, session.epoch, session.turns.ready.is_some());
        let given = turn::given(session);
        let asked: Vec<String> = session.turns.asks.iter().map(|ask| ask.request.clone()).collect();
        let given_at = session.turns.current.as_ref().map(|current| current.output_from);
        let output = self.dir.join("output");
        let Some(talk) = &mut self.talk else { return };
        let driver = talk.driver.as_mut();
        let (mut news, mut entered, mut answered, mut is_ready) = (Vec::new(), None, Vec::new(), false);
        let said = RefCell::new(String::new());
        let mut hear = |update: Update| match &update {
            Update::Ready => {
                is_ready = true;
                // What it did not have then it was not asked for again.
                news.retain(|update| !matches!(update, Update::Broken { .. }));
            }
            Update::Broken { .. } => news.push(update),
            Update::Conversation { .. } => entered = Some(update),
            Update::Began { turn } | Update::Ended { turn, .. } => {
                if given.iter().any(|(number, _)| number == turn) {
                    news.push(update);
                }
            }
            Update::Asks { ask } if !asked.contains(&ask.request) => {
                answered.extend(ask.options.first().map(|option| (ask.request.clone(), option.clone())));
            }
            // Told before: the journal knows, and what was only shown is gone.
            Update::Said { text } => said.borrow_mut().push_str(text),
            Update::Asks { .. }
            | Update::Model { .. }
            | Update::Doing { .. }
            | Update::Unasked { .. }
            | Update::Late { .. }
            | Update::Remark { .. } => {}
        };
        turn::hear_output(driver, &output, from, given_at, &mut hear);
        // What it said in earlier turns.
        said.borrow_mut().clear();
        let mut out = Out::default();
        for (at, (number, text)) in given.iter().enumerate() {
            if at == 0 {
                driver.prompt(*number, text, &mut out);
            } else {
                driver.steer(*number, text, &mut out);
            }
        }
        out.updates.drain(..).for_each(&mut hear);
        talk.line = match given_at {
            Some(given_at) => turn::hear_output(driver, &output, given_at, None, &mut hear),
            None => Vec::new(),
        };
        let mut said = said.take();
        said.truncate(said.floor_char_boundary(MAX_ANSWER_BYTES));
        talk.said = said;
        for (request, option) in answered {
            let reply = Reply { chosen: vec![option], text: None };
            driver.answer(&request, &reply, &mut Out::default());
        }
        let mut updates: Vec<Update> = entered.into_iter().chain(is_ready.then_some(Update::Ready)).collect();
        updates.extend(news);
        self.heed(Out { bytes: Vec::new(), updates });
        let session = &self.owner.history().session;
        let proves = self.talk.as_ref().is_some_and(|talk| talk.driver.proves().accepted);
        let unheard = session.turns.current.as_ref().is_some_and(|current| {
            session.turns.get(current.turn).is_some_and(|turn| turn.state == TurnState::Delivered)
        });
        if proves && unheard {
            // It may be on disk without having been said: a write that failed can be there all the same.
            let reason = "the keeper was replaced before the agent said that it has its turn".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        } else if was_ready && !is_ready {
            let reason =
                "the keeper was replaced, and the beginning of its output is no longer kept".to_owned();
            self.report(vec![Observation::Broken { epoch, reason }]);
        }
    }

    /// Whether everything we said is with the agent: a new image does not know what is not.
    pub(in crate::keeper) fn has_said_everything(&self) -> bool {
        self.talk.as_ref().is_none_or(|talk| talk.words.is_empty()) && !self.desk.is_typing()
    }
}
