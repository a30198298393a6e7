//! Whatever an agent might say, in whatever order and however much of it.

use proptest::prelude::*;

use super::*;
use crate::common::chosen;

/// What may be done to a driver.
#[derive(Clone, Debug)]
enum Act {
    Hear(Vec<u8>),
    Prompt(u64),
    Steer(u64),
    Interrupt(u64),
    Answer(usize),
    Goodbye,
}

/// A line of a real agent with something in it changed, at the level of bytes or of JSON.
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

/// The n-th value in a value, counting from the outside.
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

fn act() -> impl Strategy<Value = Act> {
    let real = proptest::sample::select(real_lines()).prop_map(|line| line.as_bytes().to_vec());
    prop_oneof![
        6 => real.prop_map(Act::Hear),
        4 => mutated().prop_map(Act::Hear),
        1 => proptest::collection::vec(any::<u8>(), 0..200).prop_map(Act::Hear),
        2 => (1..4_u64).prop_map(Act::Prompt),
        1 => (1..4_u64).prop_map(Act::Steer),
        1 => (1..4_u64).prop_map(Act::Interrupt),
        1 => any::<usize>().prop_map(Act::Answer),
        1 => Just(Act::Goodbye),
    ]
}

fn perform(acts: &[Act], begin: &Begin) -> (Vec<Value>, Vec<Update>, Acp) {
    let mut talk = Talk::new(begin);
    for act in acts {
        talk.with(|driver, out| match act {
            Act::Hear(line) => driver.hear(line, out),
            Act::Prompt(turn) => driver.prompt(*turn, "text", out),
            Act::Steer(by) => driver.steer(*by, "text", out),
            Act::Interrupt(turn) => driver.interrupt(*turn, out),
            Act::Answer(at) => {
                let asked = driver.asked.get(at % driver.asked.len().max(1));
                if let Some((request, choice)) =
                    asked.map(|it| (it.request.clone(), it.options[0].id.clone()))
                {
                    driver.answer(&request, &chosen(&choice), out);
                }
            }
            Act::Goodbye => driver.goodbye(out),
        });
    }
    (talk.sent, talk.updates, talk.driver)
}

fn begin() -> impl Strategy<Value = Begin> {
    let id = SESSION.to_owned();
    proptest::sample::select(vec![
        Begin::New { id: None },
        Begin::Resume { id: id.clone() },
        Begin::Fork { of: id, id: None },
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_comes_the_same_comes_out_and_nothing_is_claimed_twice(
        acts in proptest::collection::vec(act(), 0..60),
        begin in begin(),
    ) {
        let (sent, updates, _) = perform(&acts, &begin);
        let (sent_again, updates_again, _) = perform(&acts, &begin);
        prop_assert_eq!(&sent, &sent_again);
        prop_assert_eq!(&updates, &updates_again);
        let prompts = acts.iter().filter(|act| matches!(act, Act::Prompt(_))).count();
        let steers = acts.iter().filter(|act| matches!(act, Act::Steer(_))).count();
        let ends = updates.iter().filter(|update| matches!(update, Update::Ended { .. })).count();
        prop_assert!(ends <= prompts + 2 * steers, "{} ends of {} prompts", ends, prompts);
        let opened = updates.iter().filter(|update| matches!(update, Update::Ready | Update::Broken { .. })).count();
        prop_assert!(opened <= 1);
        // What was asked was either withdrawn, or answered, or waits; and nothing is withdrawn that was not asked.
        let mut open = Vec::new();
        for update in &updates {
            match update {
                Update::Asks { ask } => open.push(&ask.request),
                Update::Unasked { request } => {
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
        let mut talk = Talk::ready();
        talk.prompt(1, "x");
        talk.hear(&line);
    }
}

#[test]
fn an_agent_that_floods_takes_no_more_than_it_may() {
    let mut talk = Talk::ready();
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
