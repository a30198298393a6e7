//! Any lines of an agent, in any order and any number.

use proptest::prelude::*;

use super::*;
use crate::common::chosen;

/// An action on a driver.
#[derive(Clone, Debug)]
enum FuzzAction {
    Hear(Vec<u8>),
    Prompt(u64),
    Steer(u64),
    Interrupt(u64),
    Answer(usize),
    Goodbye,
}

/// A line of a real agent with one change, of bytes or of a JSON value.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let odd = prop_oneof![
        Just(Value::Null),
        Just(json!(-1)),
        Just(json!(u64::MAX)),
        Just(json!([])),
        Just(json!({})),
        Just(json!("x".repeat(5000))),
        Just(json!("turn-1")),
        Just(json!({"text": "y", "outcome": 3})),
    ];
    let line = proptest::sample::select(real_lines());
    (line, any::<u16>(), any::<u8>(), proptest::option::of(odd)).prop_map(|(line, at, byte, odd)| match odd {
        Some(odd) => {
            let mut message: Value = serde_json::from_str(line).expect("a recording is JSON");
            let mut at = usize::from(at);
            let spot = nth(&mut message, &mut at);
            if let Some(spot) = spot {
                *spot = odd;
            }
            message.to_string().into_bytes()
        }
        None => {
            let mut line = line.as_bytes().to_vec();
            let at = usize::from(at) % (line.len() + 1);
            if byte < 128 {
                line.truncate(at)
            } else {
                line.insert(at, byte)
            }
            line
        }
    })
}

/// The n-th value inside of a value, counting from the outside.
fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if n.is_multiple_of(64) {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Object(members) => members.values_mut().find_map(|member| nth(member, n)),
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn act() -> impl Strategy<Value = FuzzAction> {
    let real = proptest::sample::select(real_lines()).prop_map(|line| line.as_bytes().to_vec());
    prop_oneof![
        6 => real.prop_map(FuzzAction::Hear),
        4 => mutated().prop_map(FuzzAction::Hear),
        1 => proptest::collection::vec(any::<u8>(), 0..200).prop_map(FuzzAction::Hear),
        2 => (1..4_u64).prop_map(FuzzAction::Prompt),
        1 => (1..4_u64).prop_map(FuzzAction::Steer),
        1 => (1..4_u64).prop_map(FuzzAction::Interrupt),
        1 => any::<usize>().prop_map(FuzzAction::Answer),
        1 => Just(FuzzAction::Goodbye),
    ]
}

fn perform(acts: &[FuzzAction], begin: &ConversationStart) -> (Vec<Value>, Vec<AgentUpdate>, AcpDriver) {
    let mut talk = AcpTestRun::new(begin);
    for act in acts {
        talk.with(|driver, out| match act {
            FuzzAction::Hear(line) => driver.hear(line, out),
            FuzzAction::Prompt(turn) => driver.prompt(*turn, "text", out),
            FuzzAction::Steer(by) => driver.steer(*by, "text", out),
            FuzzAction::Interrupt(turn) => driver.interrupt(*turn, out),
            FuzzAction::Answer(at) => {
                let asked = driver.asked.get(at % driver.asked.len().max(1));
                if let Some((request, choice)) =
                    asked.map(|it| (it.request.clone(), it.options[0].id.clone()))
                {
                    driver.answer(&request, &chosen(&choice), out);
                }
            }
            FuzzAction::Goodbye => driver.goodbye(out),
        });
    }
    (talk.sent, talk.updates, talk.driver)
}

fn begin() -> impl Strategy<Value = ConversationStart> {
    let id = SESSION.to_owned();
    proptest::sample::select(vec![
        ConversationStart::New { id: None },
        ConversationStart::Resume { id: id.clone() },
        ConversationStart::Fork { of: id, id: None },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_input_gives_equal_output_and_no_end_is_reported_twice(
        acts in proptest::collection::vec(act(), 0..60),
        begin in begin(),
    ) {
        let (sent, updates, _) = perform(&acts, &begin);
        let (sent_again, updates_again, _) = perform(&acts, &begin);
        prop_assert_eq!(&sent, &sent_again);
        prop_assert_eq!(&updates, &updates_again);
        let prompts = acts.iter().filter(|act| matches!(act, FuzzAction::Prompt(_))).count();
        let steers = acts.iter().filter(|act| matches!(act, FuzzAction::Steer(_))).count();
        let ends = updates.iter().filter(|update| matches!(update, AgentUpdate::Ended { .. })).count();
        prop_assert!(ends <= prompts + 2 * steers, "{} ends of {} prompts", ends, prompts);
        let opened = updates.iter().filter(|update| matches!(update, AgentUpdate::Ready | AgentUpdate::Broken { .. })).count();
        prop_assert!(opened <= 1);
        // Each question was withdrawn, was answered, or waits; and only questions that were asked are withdrawn.
        let mut open = Vec::new();
        for update in &updates {
            match update {
                AgentUpdate::Asks { ask } => open.push(&ask.request),
                AgentUpdate::QuestionWithdrawn { request } => {
                    let at = open.iter().position(|it| *it == request);
                    prop_assert!(at.is_some(), "{} was never asked", request);
                    open.remove(at.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    #[test]
    fn any_bytes_are_heard(line in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut talk = AcpTestRun::ready();
        talk.prompt(1, "x");
        talk.hear(&line);
    }
}

#[test]
fn an_agent_that_floods_takes_no_more_than_it_may() {
    let mut talk = AcpTestRun::ready();
    talk.prompt(1, "x");
    let large = "z".repeat(70 << 10);
    for n in 0..80_u64 {
        let odd = if n < 3 { format!("{n}{large}") } else { format!("{n}{}", &large[..1000]) };
        let input = json!({"command": large});
        let call = json!({"sessionUpdate": "tool_call", "toolCallId": n.to_string(), "title": large, "rawInput": input});
        talk.update(call);
        talk.update(json!({"sessionUpdate": "tool_call", "toolCallId": odd, "title": odd}));
        talk.says(Some(&odd), &large);
        talk.update(json!({"sessionUpdate": "notice", "severity": "error", "title": odd}));
        talk.asks(json!(odd));
        let option = json!({"optionId": n.to_string(), "name": odd, "kind": "odd"});
        let params = json!({"toolCall": {"toolCallId": odd, "title": odd}, "options": vec![option; 40]});
        talk.hear_json(json!({"id": n, "method": "session/request_permission", "params": params}));
        talk.hear(odd.as_bytes());
        talk.hear_json(json!({"id": n, "method": odd}));
        talk.with(|driver, out| driver.steer(n + 2, "x", out));
        talk.updates.clear();
        talk.sent.clear();
    }
    let held = format!("{:?}", talk.driver).len();
    assert!(held < 5 << 20, "{held} bytes are held");
}
