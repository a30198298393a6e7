//! A turn, from the first thing the agent does for it to how it ended, and what it says later.

use berth_core::{Failure, Final, TurnEnd};
use serde_json::Value;

use super::answer::Answer;
use super::tool;
use super::{Acp, MAX_SHOWN_BYTES, MAX_TOKENS, MAX_TURN_REQUESTS, REFUSAL, Running};
use crate::common::failure_in;
use crate::rpc::{self, Problem};
use crate::{Activity, Interruption, Out, Update};

impl Acp {
    /// A prompt was answered.
    pub(super) fn over(&mut self, turn: u64, result: Result<Value, Problem>, out: &mut Out) {
        let Some(running) = self.turn.take_if(|running| running.turn == turn) else {
            if let Some(running) = self.turn.as_mut().filter(|_| self.is_late) {
                running.answer = Answer::default();
                running.failing = false;
            }
            return;
        };
        self.unask_all(out);
        for by in std::mem::take(&mut self.steers) {
            let why = "the turn was over before the agent said whether it took the text";
            out.update(Update::Ended { turn: by, end: TurnEnd::without_answer(Final::Unknown, why) });
            self.steers.push(by);
        }
        self.calls.clear();
        self.doing = Activity::default();
        self.late = Answer::default();
        self.last = Some(turn);
        let end = self.end(running, result, out);
        out.update(Update::Ended { turn, end });
    }

    fn end(&mut self, running: Running, result: Result<Value, Problem>, out: &mut Out) -> TurnEnd {
        let mut login = Failure::Other;
        let (said, (state, reason)) = match result {
            Ok(said) => {
                let stop = said["stopReason"].as_str().unwrap_or_default();
                let how = self.stopped(stop, &running, out);
                (said, how)
            }
            Err(problem) => {
                let reason = match problem.code {
                    rpc::AUTH_REQUIRED => {
                        login = Failure::Login;
                        format!("not logged in or wrong key: {}", problem.said())
                    }
                    _ => problem.said(),
                };
                let state = if running.interrupted { Final::Interrupted } else { Final::Failed };
                (Value::Null, (state, Some(reason)))
            }
        };
        let count = |name: &str| said["usage"][name].as_u64();
        let output_tokens = count("outputTokens");
        // Some count what came from a cache as input, some beside it. The sum has it in any case.
        let input_tokens = match (count("totalTokens"), output_tokens) {
            (Some(total), Some(output)) => total.checked_sub(output),
            _ => count("inputTokens"),
        };
        let Answer { text: answer, cut, .. } = running.answer;
        let failure = match (state, login, &reason) {
            (Final::Failed, Failure::Other, Some(reason)) => failure_in(reason),
            (_, login, _) => login,
        };
        TurnEnd { state, reason, answer, cut, input_tokens, output_tokens, failure }
    }

    fn stopped(&mut self, stop: &str, running: &Running, out: &mut Out) -> (Final, Option<String>) {
        let why = match stop {
            // codex-acp says so after errors of its model, too. What it calls the state of its thread does not lie.
            "end_turn" if running.failing => {
                let notice = running.answer.notice.trim();
                let why = if notice.is_empty() { "the agent reports an error" } else { notice };
                return (Final::Failed, Some(why.to_owned()));
            }
            "end_turn" => return (Final::Done, None),
            "cancelled" => {
                let why = match (running.interrupted, running.refused) {
                    (true, _) => Interruption::Requested,
                    (false, true) => Interruption::AfterDenial,
                    (false, false) => Interruption::ByAgent,
                };
                return (Final::Interrupted, Some(why.reason().to_owned()));
            }
            "max_tokens" => MAX_TOKENS,
            "max_turn_requests" => MAX_TURN_REQUESTS,
            "refusal" => REFUSAL,
            _ => {
                let stop = tool::line(stop, MAX_SHOWN_BYTES);
                self.remark(
                    format!("turn {} ended for a reason we do not know: `{stop}`", running.turn),
                    out,
                );
                return (Final::Done, None);
            }
        };
        (Final::Failed, Some(why.to_owned()))
    }

    /// The agent said what it did with a text for a running turn.
    pub(super) fn steered(&mut self, by: u64, result: Result<Value, Problem>, out: &mut Out) {
        let Some(at) = self.steers.iter().position(|steer| *steer == by) else { return };
        self.steers.remove(at);
        let why = match result {
            Ok(said) if said["outcome"] != "promptRequired" => {
                if self.turn.is_some() {
                    out.update(Update::Began { turn: by });
                }
                return;
            }
            Ok(_) => "the turn it was meant for was over: the agent did nothing with it".to_owned(),
            Err(problem) => format!("the agent did not take it: {}", problem.said()),
        };
        out.update(Update::Ended { turn: by, end: TurnEnd::without_answer(Final::Failed, why) });
    }

    /// The agent said what it did with the reason of a refusal.
    pub(super) fn reason_given(&mut self, request: &str, result: Result<Value, Problem>, out: &mut Out) {
        let why = match result {
            Ok(said) if said["outcome"] != "promptRequired" => return,
            Ok(_) => "its turn was over".to_owned(),
            Err(problem) => problem.said(),
        };
        self.remark(format!("the reason of the answer to `{request}` did not reach the agent: {why}"), out);
    }

    /// The agent does something that it does for a prompt.
    pub(super) fn began(&mut self, out: &mut Out) {
        let is_live = self.is_live();
        if let Some(turn) = &mut self.turn
            && is_live
            && !turn.began
        {
            turn.began = true;
            out.update(Update::Began { turn: turn.turn });
        }
    }

    pub(super) fn does(&mut self, what: &str, detail: &str, out: &mut Out) {
        let is_news = self.doing.what != what || self.doing.detail != detail;
        if is_news && self.turn.is_some() && self.is_live() {
            self.doing = Activity { what: what.to_owned(), detail: detail.to_owned(), tokens: None };
            out.update(Update::Doing { activity: self.doing.clone() });
        }
    }

    /// What was said after the last turn is complete, as far as one can know.
    pub(super) fn tell_late(&mut self, out: &mut Out) {
        let Answer { text: answer, cut, .. } = std::mem::take(&mut self.late);
        if let Some(turn) = self.last.filter(|_| !answer.is_empty()) {
            let (state, reason) = (Final::Done, None);
            let end = TurnEnd { reason, answer, cut, ..TurnEnd::without_answer(state, "") };
            out.update(Update::Late { turn, end });
        }
    }
}
