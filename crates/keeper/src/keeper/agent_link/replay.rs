//! Talking on where the image of this program before this one left off.

use std::cell::RefCell;

use berth_core::{AskOption, Event, Reply};
use berth_driver::{Driver, Out, Update};
use berth_store::History;

use super::AgentLink;
use crate::keeper::identity::KeeperIdentity;
use crate::turn;

/// What a driver learned from the output of its run.
#[derive(Debug)]
pub(in crate::keeper) struct ReplayedOutput {
    /// The updates that the journal may not have.
    pub(in crate::keeper) updates: Vec<Update>,
    /// True if the agent said that it takes turns.
    pub(in crate::keeper) is_ready: bool,
}

impl AgentLink {
    /// Brings the driver to where the one of the image before this was: all that the agent has written is in the output.
    /// What the keeper said then was said; it is not said twice.
    pub(in crate::keeper) fn replay_output(
        &mut self,
        history: &History,
        identity: &KeeperIdentity,
    ) -> ReplayedOutput {
        let session = &history.session;
        let from = session.output_from;
        let given = turn::given(session);
        let asked: Vec<String> = session.turns.asks.iter().map(|ask| ask.request.clone()).collect();
        let given_at = session.turns.current.as_ref().map(|current| current.output_from);
        let output = identity.files().output();
        let driver = self.driver.as_mut();
        let (mut news, mut entered, mut answered, mut is_ready) = (Vec::new(), None, Vec::new(), false);
        let mut context = None;
        let said = RefCell::new(String::new());
        let mut hear = |update: Update| match &update {
            Update::Ready => {
                is_ready = true;
                // What it did not have then it was not asked for again.
                news.retain(|update| !matches!(update, Update::Broken { .. }));
            }
            Update::Broken { .. } => news.push(update),
            Update::Conversation { .. } => (entered, context) = (Some(update), None),
            // The latest may not be in the status that the image before this one wrote.
            Update::Context { .. } => context = Some(update),
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
        // The words of earlier turns.
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
        self.line = match given_at {
            Some(given_at) => turn::hear_output(driver, &output, given_at, None, &mut hear),
            None => Vec::new(),
        };
        self.live_turn.restore(said.take());
        if !answered.is_empty() {
            match identity.files().read(history.run_seq.max(1)) {
                Ok(events) => {
                    let replies = replies_of_run(events.iter().map(|event| &event.get().event));
                    answer_again(driver, &replies, answered, &asked);
                }
                // A question too many is better than an answer that was never given.
                Err(problem) => {
                    tracing::warn!(error = problem.what, "the answers of this run cannot be read");
                }
            }
        }
        let mut updates: Vec<Update> =
            entered.into_iter().chain(context).chain(is_ready.then_some(Update::Ready)).collect();
        updates.extend(news);
        ReplayedOutput { updates, is_ready }
    }
}

/// The answers in the last run of these events, oldest first.
fn replies_of_run<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<(String, Reply)> {
    let mut replies = Vec::new();
    for event in events {
        match event {
            Event::RunStarting { .. } => replies.clear(),
            Event::Answered { request, reply, .. } => replies.push((request.clone(), reply.clone())),
            _ => {}
        }
    }
    replies
}

/// Brings the questions of a driver to where they were. One request may have several questions, and the answers to the
/// first of them are sent with the last: they must be those that were given. A question that was closed without an answer
/// only has to be gone, whatever is answered.
fn answer_again(
    driver: &mut dyn Driver,
    replies: &[(String, Reply)],
    closed: Vec<(String, AskOption)>,
    open: &[String],
) {
    for (request, reply) in replies.iter().filter(|(request, _)| !open.contains(request)) {
        driver.answer(request, reply, &mut Out::default());
    }
    for (request, option) in closed {
        if !replies.iter().any(|(answered, _)| *answered == request) {
            driver.answer(&request, &Reply { chosen: vec![option], text: None }, &mut Out::default());
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::{Actor, SessionId};

    use super::*;
    use crate::driver;

    const TWO_QUESTIONS: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}],"multiSelect":false},{"question":"Which size?","header":"Size","options":[{"label":"S","description":"small"},{"label":"L","description":"large"}],"multiSelect":true}]},"tool_use_id":"t1","requires_user_interaction":true}}"#;

    #[test]
    fn the_first_of_two_questions_keeps_its_recorded_answer_in_a_new_image_of_the_keeper() {
        let id = SessionId::parse("0123456789ab").expect("an id");
        let mut driver = driver::of("claude", &id).expect("a driver");
        let mut out = Out::default();
        driver.hear(TWO_QUESTIONS.as_bytes(), &mut out);
        let [Update::Asks { ask }] = &out.updates[..] else { panic!("{:?}", out.updates) };
        let blue = Reply { chosen: vec![ask.options[1].clone()], text: None };
        let answered = Event::Answered { request: ask.request.clone(), reply: blue, by: Actor::default() };
        let heard = vec![(ask.request.clone(), ask.options[0].clone())];
        let second = format!("{}/2", ask.request);
        answer_again(
            driver.as_mut(),
            &replies_of_run([answered].iter()),
            heard,
            std::slice::from_ref(&second),
        );
        let mut out = Out::default();
        let small = Reply { chosen: vec![ask.options[0].clone()], text: None };
        driver.answer(&second, &small, &mut out);
        let said = String::from_utf8_lossy(&out.bytes);
        assert!(said.contains(r#""Which color?":"Blue""#) && said.contains(r#""Which size?":"S""#), "{said}");
    }
}
