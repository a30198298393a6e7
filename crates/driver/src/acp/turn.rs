//! Turns: the first sign of work, the end, and later text.

use berth_core::{FinalState, TurnEnd, TurnFailure};
use serde_json::Value;

use super::answer::AcpAnswer;
use super::tool_call;
use super::{AcpDriver, AcpTurn, MAX_SHOWN_BYTES, MAX_TOKENS, MAX_TURN_REQUESTS, REFUSAL};
use crate::common::failure_in_error_text;
use crate::rpc::{self, RpcError};
use crate::{AgentActivity, AgentUpdate, DriverOutput, InterruptionReason};

impl AcpDriver {
    /// Handles the answer to a prompt.
    pub(super) fn over(&mut self, turn: u64, result: Result<Value, RpcError>, out: &mut DriverOutput) {
        let Some(running) = self.turn.take_if(|running| running.turn == turn) else {
            if let Some(running) = self.turn.as_mut().filter(|_| self.is_late) {
                running.answer = AcpAnswer::default();
                running.failing = false;
            }
            return;
        };
        self.unask_all(out);
        for by in std::mem::take(&mut self.steers) {
            let why = "the turn was over before the agent said whether it took the text";
            out.update(AgentUpdate::Ended {
                turn: by,
                end: TurnEnd::without_answer(FinalState::Unknown, why),
            });
            self.steers.push(by);
        }
        self.calls.clear();
        self.doing = AgentActivity::default();
        self.late = AcpAnswer::default();
        self.last = Some(turn);
        let end = self.end(running, result, out);
        out.update(AgentUpdate::Ended { turn, end });
    }

    fn end(&mut self, running: AcpTurn, result: Result<Value, RpcError>, out: &mut DriverOutput) -> TurnEnd {
        let mut login = TurnFailure::Other;
        let (said, (state, reason)) = match result {
            Ok(said) => {
                let stop = said["stopReason"].as_str().unwrap_or_default();
                let how = self.stopped(stop, &running, out);
                (said, how)
            }
            Err(problem) => {
                let reason = match problem.code {
                    rpc::AUTH_REQUIRED => {
                        login = TurnFailure::Login;
                        format!("not logged in or wrong key: {}", problem.said())
                    }
                    _ => problem.said(),
                };
                let state = if running.interrupted { FinalState::Interrupted } else { FinalState::Failed };
                (Value::Null, (state, Some(reason)))
            }
        };
        let count = |name: &str| said["usage"][name].as_u64();
        let output_tokens = count("outputTokens");
        // Some agents count cached tokens as input, some separately. The total includes them in any case.
        let input_tokens = match (count("totalTokens"), output_tokens) {
            (Some(total), Some(output)) => total.checked_sub(output),
            _ => count("inputTokens"),
        };
        let AcpAnswer { text: answer, cut, .. } = running.answer;
        let failure = match (state, login, &reason) {
            (FinalState::Failed, TurnFailure::Other, Some(reason)) => failure_in_error_text(reason),
            (_, login, _) => login,
        };
        TurnEnd { state, reason, answer, cut, input_tokens, output_tokens, failure }
    }

    fn stopped(
        &mut self,
        stop: &str,
        running: &AcpTurn,
        out: &mut DriverOutput,
    ) -> (FinalState, Option<String>) {
        let why = match stop {
            // codex-acp also reports this after errors of its model. The state of its thread is reliable.
            "end_turn" if running.failing => {
                let notice = running.answer.notice.trim();
                let why = if notice.is_empty() { "the agent reports an error" } else { notice };
                return (FinalState::Failed, Some(why.to_owned()));
            }
            "end_turn" => return (FinalState::Done, None),
            "cancelled" => {
                let why = match (running.interrupted, running.refused) {
                    (true, _) => InterruptionReason::Requested,
                    (false, true) => InterruptionReason::AfterDenial,
                    (false, false) => InterruptionReason::ByAgent,
                };
                return (FinalState::Interrupted, Some(why.reason().to_owned()));
            }
            "max_tokens" => MAX_TOKENS,
            "max_turn_requests" => MAX_TURN_REQUESTS,
            "refusal" => REFUSAL,
            _ => {
                let stop = tool_call::line(stop, MAX_SHOWN_BYTES);
                self.remark(
                    format!("turn {} ended for a reason we do not know: `{stop}`", running.turn),
                    out,
                );
                return (FinalState::Done, None);
            }
        };
        (FinalState::Failed, Some(why.to_owned()))
    }

    /// Handles the answer to a text for the running turn.
    pub(super) fn steered(&mut self, by: u64, result: Result<Value, RpcError>, out: &mut DriverOutput) {
        let Some(at) = self.steers.iter().position(|steer| *steer == by) else { return };
        self.steers.remove(at);
        let why = match result {
            Ok(said) if said["outcome"] != "promptRequired" => {
                if self.turn.is_some() {
                    out.update(AgentUpdate::Began { turn: by });
                }
                return;
            }
            Ok(_) => "the turn it was meant for was over: the agent did nothing with it".to_owned(),
            Err(problem) => format!("the agent did not take it: {}", problem.said()),
        };
        out.update(AgentUpdate::Ended { turn: by, end: TurnEnd::without_answer(FinalState::Failed, why) });
    }

    /// Handles the answer to the reason of a refusal.
    pub(super) fn reason_given(
        &mut self,
        request: &str,
        result: Result<Value, RpcError>,
        out: &mut DriverOutput,
    ) {
        let why = match result {
            Ok(said) if said["outcome"] != "promptRequired" => return,
            Ok(_) => "its turn was over".to_owned(),
            Err(problem) => problem.said(),
        };
        self.remark(format!("the reason of the answer to `{request}` did not reach the agent: {why}"), out);
    }

    /// Notes a sign that the agent works on the prompt.
    pub(super) fn began(&mut self, out: &mut DriverOutput) {
        let is_live = self.is_live();
        if let Some(turn) = &mut self.turn
            && is_live
            && !turn.began
        {
            turn.began = true;
            out.update(AgentUpdate::Began { turn: turn.turn });
        }
    }

    pub(super) fn set_activity(&mut self, what: &str, detail: &str, out: &mut DriverOutput) {
        let is_news = self.doing.what != what || self.doing.detail != detail;
        if is_news && self.turn.is_some() && self.is_live() {
            self.doing = AgentActivity { what: what.to_owned(), detail: detail.to_owned(), tokens: None };
            out.update(AgentUpdate::Doing { activity: self.doing.clone() });
        }
    }

    /// Reports the text after the last turn, which is complete as far as we can know.
    pub(super) fn report_late_output(&mut self, out: &mut DriverOutput) {
        let AcpAnswer { text: answer, cut, .. } = std::mem::take(&mut self.late);
        if let Some(turn) = self.last.filter(|_| !answer.is_empty()) {
            let (state, reason) = (FinalState::Done, None);
            let end = TurnEnd { reason, answer, cut, ..TurnEnd::without_answer(state, "") };
            out.update(AgentUpdate::Late { turn, end });
        }
    }
}
