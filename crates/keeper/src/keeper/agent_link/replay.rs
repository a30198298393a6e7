//! Restoring the driver's state in a new image of the keeper.
//!
//! Promise: messages that the previous image sent to the agent are not sent twice.
//! Start with [`AgentLink::replay_output`].

use std::cell::RefCell;
use std::ops::ControlFlow;

use berth_core::{ChosenReply, Event, QuestionOption};
use berth_driver::{AgentUpdate, Driver, DriverOutput};
use berth_store::SessionView;

use super::AgentLink;
use crate::keeper::identity::KeeperIdentity;
use crate::turn_outcome;

/// The state that a driver learned from the output of its run.
#[derive(Debug)]
pub(in crate::keeper) struct ReplayedOutput {
    /// The updates that the journal may not have.
    pub(in crate::keeper) updates: Vec<AgentUpdate>,
    /// True if the agent said that it takes turns.
    pub(in crate::keeper) is_ready: bool,
}

impl AgentLink {
    /// Brings the driver to the state it had in the previous image: everything the agent has written is in the
    /// output. Messages that the keeper sent then are not sent twice.
    pub(in crate::keeper) fn replay_output(
        &mut self,
        history: &SessionView,
        identity: &KeeperIdentity,
    ) -> ReplayedOutput {
        let session = &history.session;
        let from = session.output_from;
        let given = turn_outcome::unanswered_prompts(session);
        let asked: Vec<String> = session.turns.asks.iter().map(|ask| ask.request.clone()).collect();
        let given_at = session.turns.current.as_ref().map(|current| current.output_from);
        let output = identity.files().output();
        let driver = self.driver.as_mut();
        let (mut news, mut entered, mut answered, mut is_ready) = (Vec::new(), None, Vec::new(), false);
        let mut context = None;
        let said = RefCell::new(String::new());
        let mut hear = |update: AgentUpdate| match &update {
            AgentUpdate::Ready => {
                is_ready = true;
                // The previous image did not ask again for missing input either.
                news.retain(|update| !matches!(update, AgentUpdate::Broken { .. }));
            }
            AgentUpdate::Broken { .. } => news.push(update),
            AgentUpdate::Conversation { .. } => (entered, context) = (Some(update), None),
            // The latest context may not be in the status that the previous image wrote.
            AgentUpdate::Context { .. } => context = Some(update),
            AgentUpdate::Began { turn } | AgentUpdate::Ended { turn, .. } => {
                if given.iter().any(|(number, _)| number == turn) {
                    news.push(update);
                }
            }
            AgentUpdate::Asks { ask } if !asked.contains(&ask.request) => {
                answered.extend(ask.options.first().map(|option| (ask.request.clone(), option.clone())));
            }
            // Reported before: the journal has it, and mere display is gone.
            AgentUpdate::Said { text } => said.borrow_mut().push_str(text),
            AgentUpdate::Asks { .. }
            | AgentUpdate::Model { .. }
            | AgentUpdate::Doing { .. }
            | AgentUpdate::QuestionWithdrawn { .. }
            | AgentUpdate::Late { .. }
            | AgentUpdate::Remark { .. } => {}
        };
        let mut hear_all = |update| {
            hear(update);
            ControlFlow::Continue(())
        };
        turn_outcome::feed_driver(driver, &output, from, given_at, &mut hear_all);
        // Drops the text of earlier turns.
        said.borrow_mut().clear();
        let mut out = DriverOutput::default();
        for (at, (number, text)) in given.iter().enumerate() {
            if at == 0 {
                driver.prompt(*number, text, &mut out);
            } else {
                driver.steer(*number, text, &mut out);
            }
        }
        out.updates.drain(..).for_each(|update| {
            let _ = hear_all(update);
        });
        self.line = match given_at {
            Some(given_at) => turn_outcome::feed_driver(driver, &output, given_at, None, &mut hear_all),
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
        let mut updates: Vec<AgentUpdate> =
            entered.into_iter().chain(context).chain(is_ready.then_some(AgentUpdate::Ready)).collect();
        updates.extend(news);
        ReplayedOutput { updates, is_ready }
    }
}

/// The answers in the last run of these events, oldest first.
fn replies_of_run<'a>(events: impl Iterator<Item = &'a Event>) -> Vec<(String, ChosenReply)> {
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

/// Brings the questions of a driver to their recorded state. One request may have several questions, and the answers
/// to the first of them are sent with the last: they must be those that were given. A question that was closed
/// without an answer only has to be gone, so any answer does.
fn answer_again(
    driver: &mut dyn Driver,
    replies: &[(String, ChosenReply)],
    closed: Vec<(String, QuestionOption)>,
    open: &[String],
) {
    for (request, reply) in replies.iter().filter(|(request, _)| !open.contains(request)) {
        driver.answer(request, reply, &mut DriverOutput::default());
    }
    for (request, option) in closed {
        if !replies.iter().any(|(answered, _)| *answered == request) {
            driver.answer(
                &request,
                &ChosenReply { chosen: vec![option], text: None },
                &mut DriverOutput::default(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_core::{Actor, SessionId};

    use super::*;
    use crate::agent_launch;

    const TWO_QUESTIONS: &str = r#"{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which color?","header":"Color","options":[{"label":"Red","description":"warm"},{"label":"Blue","description":"cold"}],"multiSelect":false},{"question":"Which size?","header":"Size","options":[{"label":"S","description":"small"},{"label":"L","description":"large"}],"multiSelect":true}]},"tool_use_id":"t1","requires_user_interaction":true}}"#;

    #[test]
    fn the_first_of_two_questions_keeps_its_recorded_answer_in_a_new_image_of_the_keeper() {
        let id = SessionId::parse("0123456789ab").expect("an id");
        let mut driver = agent_launch::of("claude", &id).expect("a driver");
        let mut out = DriverOutput::default();
        driver.hear(TWO_QUESTIONS.as_bytes(), &mut out);
        let [AgentUpdate::Asks { ask }] = &out.updates[..] else { panic!("{:?}", out.updates) };
        let blue = ChosenReply { chosen: vec![ask.options[1].clone()], text: None };
        let answered = Event::Answered { request: ask.request.clone(), reply: blue, by: Actor::default() };
        let heard = vec![(ask.request.clone(), ask.options[0].clone())];
        let second = format!("{}/2", ask.request);
        answer_again(
            driver.as_mut(),
            &replies_of_run([answered].iter()),
            heard,
            std::slice::from_ref(&second),
        );
        let mut out = DriverOutput::default();
        let small = ChosenReply { chosen: vec![ask.options[0].clone()], text: None };
        driver.answer(&second, &small, &mut out);
        let said = String::from_utf8_lossy(&out.bytes);
        assert!(said.contains(r#""Which color?":"Blue""#) && said.contains(r#""Which size?":"S""#), "{said}");
    }
}
